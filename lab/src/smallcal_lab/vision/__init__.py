"""From images to logits: sets of images and models by one string, splits, and corruptions.

>>> from smallcal_lab import vision
>>> "open_images" in dir(vision)
True

It needs Pillow: ``pip install 'smallcal-lab[vision]'``. Names are loaded when first used.
"""

from typing import TYPE_CHECKING

from smallcal._lazy import attach
from smallcal.errors import needing

with needing("pillow", "vision", "working with images", of="smallcal-lab"):
    import PIL as PIL

if TYPE_CHECKING:
    from smallcal_lab.vision.corruptions import CORRUPTIONS as CORRUPTIONS
    from smallcal_lab.vision.corruptions import STANDARD as STANDARD
    from smallcal_lab.vision.corruptions import corrupt as corrupt
    from smallcal_lab.vision.extraction.cell_images import CellImages as CellImages
    from smallcal_lab.vision.extraction.cell_images import Corruptions as Corruptions
    from smallcal_lab.vision.extraction.extracting import CellName as CellName
    from smallcal_lab.vision.extraction.extracting import Extracted as Extracted
    from smallcal_lab.vision.extraction.extracting import ExtractionSettings as ExtractionSettings
    from smallcal_lab.vision.extraction.extracting import extract as extract
    from smallcal_lab.vision.image_set import ImageSet as ImageSet
    from smallcal_lab.vision.images import image_parts as image_parts
    from smallcal_lab.vision.images import open_images as open_images
    from smallcal_lab.vision.models.model import InputSpec as InputSpec
    from smallcal_lab.vision.models.model import VisionModel as VisionModel
    from smallcal_lab.vision.models.opening import open_model as open_model
    from smallcal_lab.vision.paper.cells import Paper as Paper
    from smallcal_lab.vision.paper.cells import load_paper as load_paper
    from smallcal_lab.vision.paper.run import Plan as Plan
    from smallcal_lab.vision.paper.run import RunSettings as RunSettings
    from smallcal_lab.vision.paper.run import plan_paper as plan_paper
    from smallcal_lab.vision.paper.run import run_paper as run_paper
    from smallcal_lab.vision.paper.work import Places as Places
    from smallcal_lab.vision.splits import ImageSplit as ImageSplit
    from smallcal_lab.vision.splits import read_split as read_split
    from smallcal_lab.vision.splits import split_images as split_images
    from smallcal_lab.vision.training.recipe import Recipe as Recipe
    from smallcal_lab.vision.training.recipe import read_recipe as read_recipe
    from smallcal_lab.vision.training.recipe import recipe_names as recipe_names
    from smallcal_lab.vision.training.training import TrainingRun as TrainingRun
    from smallcal_lab.vision.training.training import train as train
else:  # checkers know the names above, and no others
    __getattr__, __dir__, __all__ = attach(
        __name__,
        {
            "corruptions": ["CORRUPTIONS", "STANDARD", "corrupt"],
            "extraction.extracting": ["CellName", "Extracted", "ExtractionSettings", "extract"],
            "extraction.cell_images": ["CellImages", "Corruptions"],
            "image_set": ["ImageSet"],
            "images": ["image_parts", "open_images"],
            "models.model": ["InputSpec", "VisionModel"],
            "models.opening": ["open_model"],
            "paper.cells": ["Paper", "load_paper"],
            "paper.run": ["Plan", "RunSettings", "plan_paper", "run_paper"],
            "paper.work": ["Places"],
            "splits": ["ImageSplit", "read_split", "split_images"],
            "training.recipe": ["Recipe", "read_recipe", "recipe_names"],
            "training.training": ["TrainingRun", "train"],
        },
    )
