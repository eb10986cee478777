"""What tests share beside fixtures; fixtures are in the nearest ``conftest.py``.

==================  ==========================================================================
``simulated``       Logits with known truth.
``real``            Logits of real models, two of them in the repository.
``cases``           Fit and apply any method by its name.
``backends``        Every way to apply a fitted calibrator, behind one call.
``program_numpy``   A plain interpreter of the programs that exporters translate.
``nasty_names``     Names that do harm where they are not escaped.
``fuzzing``         How many damaged files are thrown.
``small_study``     A small study, also as a program that can be killed.
``small_apply``     The same for a calibrator applied in parts.
==================  ==========================================================================
"""
