"""Transformers of the catalog's public models."""

from collections.abc import Mapping
from typing import Any

from tpuctl.catalog.public_models import public_model
from tpuctl.perfmodel.workload.transformer import (
    Attention,
    Experts,
    LatentAttention,
    LinearAttention,
    Transformer,
)


def known_transformer(name: str) -> Transformer:
    """The shape of a public model; raises catalog.UnknownError."""
    return transformer_of(public_model(name).shape)


def transformer_of(shape: Mapping[str, Any]) -> Transformer:
    """A transformer from its fields, nested as in the catalog; raises TypeError for another one."""
    fields = dict(shape)
    if experts := fields.pop("experts", None):
        fields["experts"] = Experts(**experts)
    if attention := dict(fields.pop("attention", {})):
        latent, linear = attention.pop("latent", None), attention.pop("linear", None)
        fields["attention"] = Attention(
            latent=LatentAttention(**latent) if latent else None,
            linear=LinearAttention(**linear) if linear else None,
            **attention,
        )
    return Transformer(**fields)
