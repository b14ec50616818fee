"""Load and check debate variants: folders with a ``protocol.yaml`` and one template for each stage."""

from madke.variants.load import Variant, load_variant, own_variant, read_protocol, variant_folders

__all__ = ["Variant", "load_variant", "own_variant", "read_protocol", "variant_folders"]
