"""The names of the corruptions of ImageNet-C and CIFAR-C."""

#: The corruptions of ImageNet-C; CIFAR-10-C and CIFAR-100-C have four more.
STANDARD = (
    *("gaussian_noise", "shot_noise", "impulse_noise", "defocus_blur", "glass_blur"),
    *("motion_blur", "zoom_blur", "snow", "frost", "fog", "brightness", "contrast"),
    *("elastic_transform", "pixelate", "jpeg_compression"),
)
EXTRA = ("speckle_noise", "gaussian_blur", "spatter", "saturate")
SEVERITIES = (1, 2, 3, 4, 5)
