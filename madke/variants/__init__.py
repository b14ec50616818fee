"""Debate variants: folders with a ``protocol.yaml`` and one template a stage, loaded and checked."""

from madke.variants.load import Variant, load_variant, variant_folders

__all__ = ["Variant", "load_variant", "variant_folders"]
