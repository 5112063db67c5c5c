"""The values that were typed become a plan's question, or one line that says what is wrong."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import MISSING, asdict, fields
from typing import Any, TypeVar

from tpuctl import catalog
from tpuctl.catalog import PublicModel
from tpuctl.errors import UsageError
from tpuctl.models.duration import age, parse_duration
from tpuctl.models.planning import plan_spec
from tpuctl.models.planning.amount import parse_amount, parse_count
from tpuctl.models.planning.plan_spec import (
    ModelChoice,
    PlanLimits,
    ServePlanSpec,
    SliceChoice,
    TrainPlanSpec,
)
from tpuctl.operations.planning.given_values import (
    HINT,
    KEYS,
    GivenValue,
    GivenValues,
    nested,
    values_under,
)
from tpuctl.operations.planning.value_kinds import (
    FLAG_WORDS,
    VALUE_KINDS,
    AmountKind,
    ChoiceKind,
    DurationKind,
    FlagKind,
    shape_kind,
)
from tpuctl.perfmodel.workload.known_models import transformer_of
from tpuctl.perfmodel.workload.transformer import (
    Experts,
    LatentAttention,
    LinearAttention,
    Transformer,
)

_Kind = TypeVar("_Kind", AmountKind, ChoiceKind, DurationKind)
_SIDES = (
    *("layers", "hidden", "heads", "kv_heads", "head_dim", "mlp_hidden", "vocab", "mlp_matrices"),
)
_EXPERT_SIDES = ("count", "per_token", "hidden")
_RANKS = (*("kv_rank", "nope_dim", "rope_dim", "value_dim", "key_heads", "value_heads", "key_dim"),)
"""Fields that are at least 1: of every model, of experts, of latent and linear attention."""


def train_spec(values: GivenValues) -> TrainPlanSpec:
    """The question about a training run; raises UsageError."""
    model = _model(values)
    sequence = _count(values, "run.seq")
    tokens = _amount(values, "run.tokens")
    missing = [
        option
        for option, given in (("--model", model), ("--tokens", tokens), ("--seq", sequence))
        if given is None
    ]
    if model is None or sequence is None or tokens is None:
        raise UsageError(
            f"a plan needs {' and '.join(missing)}",
            hint="run: tpuctl plan --model llama-3-8b --tokens 1T --seq 8192",
        )
    return TrainPlanSpec(
        model=model,
        tokens=tokens,
        sequence_tokens=sequence,
        batch_sequences=_batch(values, sequence),
        remat=_choice(values, "run.remat"),
        precision=_choice(values, "run.precision") or "bf16",
        optimizer=_choice(values, "run.optimizer") or "adam",
        mesh=_mesh(values),
        slices=slice_choice(values),
        limits=PlanLimits(
            days=_amount(values, "limits.days"),
            usd=_amount(values, "limits.usd"),
        ),
    )


def serve_spec(values: GivenValues) -> ServePlanSpec:
    """The question about a model that answers requests; raises UsageError."""
    model = _model(values)
    prompt, output = _count(values, "serve.in"), _count(values, "serve.out")
    if model is None or prompt is None or output is None:
        raise UsageError(
            "a plan of a service needs --model, --in and --out",
            hint="run: tpuctl plan serve --model llama-3-8b --in 1024 --out 1024",
        )
    return ServePlanSpec(
        model=model,
        prompt_tokens=prompt,
        output_tokens=output,
        rate=_amount(values, "serve.rate"),
        latency_s=_seconds(values, "serve.latency"),
        weight_bits=_bits(values, "serve.weight_bits"),
        cache_bits=_bits(values, "serve.cache_bits"),
        tensor=_count(values, "serve.tensor"),
        slices=slice_choice(values),
    )


def transformer(choice: ModelChoice) -> Transformer:
    """The transformer that a person chose; raises UsageError with the nearest names."""
    if choice.name is None:
        return _shaped(choice.shape)
    return transformer_of(_public_model(choice.name).shape)


def _public_model(name: str) -> PublicModel:
    try:
        return catalog.public_model(name)
    except catalog.UnknownError as error:
        near = catalog.nearest(name, error.nearest)
        meant = f"did you mean {' or '.join(near)}? " if near else ""
        raise UsageError(
            f"unknown model {name[:60]!r}", hint=f"{meant}run: tpuctl catalog models"
        ) from error


def _shaped(shape: Mapping[str, Any]) -> Transformer:
    if missing := [*_missing_fields(shape)]:
        raise UsageError(f"the shape of the model has no {_joined(missing)}", hint=HINT)
    return _checked(transformer_of(shape))


def _missing_fields(shape: Mapping[str, Any]) -> Iterator[str]:
    """The fields without a default that a shape lacks, by the paths of their keys."""
    attention = shape.get("attention", {})
    records: tuple[tuple[str, Any, Mapping[str, Any] | None], ...] = (
        ("", Transformer, shape),
        ("experts.", Experts, shape.get("experts")),
        ("attention.latent.", LatentAttention, attention.get("latent")),
        ("attention.linear.", LinearAttention, attention.get("linear")),
    )
    for start, record, given in records:
        if given is None:
            continue
        for each in fields(record):
            has_default = each.default is not MISSING or each.default_factory is not MISSING
            if each.name not in given and not has_default:
                yield f"{start}{each.name}"


def _checked(model: Transformer) -> Transformer:
    """The model, if its sides can be multiplied; raises UsageError."""
    experts, kinds = model.experts, model.attention
    for name, side in _positive_sides(model).items():
        if side < 1:
            raise UsageError(f"model.{name} must be at least 1, not {side}")
    layers = {
        "attention.window_layers + linear_layers": kinds.window_layers + kinds.linear_layers,
        "experts.dense_layers": experts.dense_layers if experts else 0,
    }
    for name, count in layers.items():
        if count > model.layers:
            raise UsageError(f"model.{name} must be at most its {model.layers} layers")
    if experts and experts.per_token > experts.count:
        raise UsageError(f"model.experts.per_token must be at most its {experts.count} experts")
    if kinds.linear_layers and kinds.linear is None:
        raise UsageError("model.attention.linear_layers needs the sides of attention.linear")
    return model


def _positive_sides(model: Transformer) -> dict[str, int]:
    """The sides that are at least 1, by the paths of their keys."""
    sides = {name: getattr(model, name) for name in _SIDES}
    if model.experts:
        sides |= {f"experts.{name}": getattr(model.experts, name) for name in _EXPERT_SIDES}
    kinds = {"latent": model.attention.latent, "linear": model.attention.linear}
    for kind, record in kinds.items():
        named = asdict(record) if record else {}
        sides |= {f"attention.{kind}.{name}": named[name] for name in _RANKS if name in named}
    return sides


def _model(values: GivenValues) -> ModelChoice | None:
    """The model that was given, whose name is known; None without one."""
    if named := values.get("model"):
        _public_model(named.text)
        return ModelChoice(name=named.text)
    shape = {
        path: _side(given, shape_kind(path))
        for path, given in values_under(values, "model").items()
    }
    return ModelChoice(shape=nested(shape)) if shape else None


def _side(given: GivenValue, kind: AmountKind | FlagKind) -> int | bool:
    return _whole(given, kind) if isinstance(kind, AmountKind) else _flag(given)


def _batch(values: GivenValues, sequence_tokens: int) -> int | None:
    """Sequences of a batch; of its tokens the nearest power of two, which meshes can cut."""
    sequences = _count(values, "run.batch")
    tokens = _amount(values, "run.batch_tokens")
    if tokens is None:
        return sequences
    given = values["run.batch_tokens"]
    if sequences is not None:
        raise UsageError(f"{given.name} and {values['run.batch'].name} exclude each other")
    if tokens < sequence_tokens:
        raise UsageError(
            f"{given.name} must be at least one sequence of {sequence_tokens} tokens, "
            f"not {given.text}"
        )
    return int(2 ** round(math.log2(tokens / sequence_tokens)))


def _mesh(values: GivenValues) -> Mapping[str, int]:
    """The axes that were given, from a text such as `fsdp=16,tensor=4` or from a mapping."""
    axes = values_under(values, "run.mesh")
    if typed := values.get("run.mesh"):
        for part in typed.text.split(","):
            axis, equals, ways = part.partition("=")
            if not equals:
                hint = f"write {typed.name} fsdp=16,tensor=4"
                raise UsageError(f"{typed.name}: {part[:40]!r} is not AXIS=WAYS", hint=hint)
            axis = axis.strip()
            if axis in axes:
                raise UsageError(f"{typed.name} gives {axis[:40]!r} twice")
            axes[axis] = GivenValue(ways.strip(), f"{typed.name} {axis[:40]}")
    for axis in axes:
        if axis not in KEYS["run.mesh"]:
            near = catalog.nearest(axis, KEYS["run.mesh"])
            advice = f"did you mean {near[0]}? " if near else ""
            known = ", ".join(KEYS["run.mesh"])
            raise UsageError(f"unknown axis {axis[:40]!r} of a mesh", hint=f"{advice}axes: {known}")
    mesh = {axis: _ways(given, axis) for axis, given in axes.items()}
    if sum(ways == plan_spec.FILLED for ways in mesh.values()) > 1:
        raise UsageError("only one axis of a mesh may be -1, which takes what the others leave")
    return mesh


def _ways(given: GivenValue, axis: str) -> int:
    if given.text == str(plan_spec.FILLED):
        return plan_spec.FILLED
    return _whole(given, _kind(AmountKind, f"run.mesh.{axis}"))


def slice_choice(values: GivenValues) -> SliceChoice:
    """The slices that are compared; raises UsageError and NotFoundError for unknown names."""
    zone = values.get("slices.zone")
    generations = _names_in(values, "slices.generations")
    try:
        for name in generations:
            catalog.generation(name)
        if zone is not None and zone.text not in catalog.zones():
            near = catalog.nearest(zone.text, catalog.zones())
            raise catalog.UnknownError("zone", zone.text, near)
    except catalog.UnknownError as error:
        from tpuctl.operations.slices.specs import unknown_name_error  # only a wrong name pays

        raise unknown_name_error(error) from error
    spot = values.get("slices.spot")
    return SliceChoice(
        types=_types(_names_in(values, "slices.types"), zone.text if zone else None),
        generations=generations,
        zone=zone.text if zone else None,
        num_slices=_count(values, "slices.num_slices") or 1,
        is_spot=_flag(spot) if spot else False,
        preempted_every_s=_seconds(values, "slices.preempted_every"),
    )


def _types(names: tuple[str, ...], zone: str | None) -> tuple[str, ...]:
    """The types that are meant, each of which the zone has; raises UsageError."""
    if not names:
        return ()
    from tpuctl.operations.capacity.type_names import resolve_name  # 30 ms for named types alone
    from tpuctl.operations.slices.specs import check_zone

    types = tuple(dict.fromkeys(map(resolve_name, names)))
    for name in types if zone else ():
        check_zone(name, zone or "")
    return types


def _names_in(values: GivenValues, path: str) -> tuple[str, ...]:
    given = values.get(path)
    if given is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in given.text.split(",") if part.strip()))
    if not names:
        raise UsageError(f"{given.name} must not be empty")
    return names


def _kind(kind: type[_Kind], path: str) -> _Kind:
    """The kind of a key, which is one of these."""
    found = VALUE_KINDS[path]
    assert isinstance(found, kind)
    return found


def _count(values: GivenValues, path: str) -> int | None:
    given = values.get(path)
    return None if given is None else _whole(given, _kind(AmountKind, path))


def _whole(given: GivenValue, kind: AmountKind) -> int:
    return parse_count(given.text, given.name, least=int(kind.least), most=kind.most)


def _amount(values: GivenValues, path: str) -> float | None:
    given, kind = values.get(path), _kind(AmountKind, path)
    if given is None:
        return None
    return parse_amount(given.text, given.name, least=kind.least, most=kind.most)


def _seconds(values: GivenValues, path: str) -> float | None:
    """Seconds of a duration above 0; raises UsageError."""
    given, most_s = values.get(path), _kind(DurationKind, path).most_s
    if given is None:
        return None
    text = given.text
    found = float(text[:-2]) / 1000 if _is_milliseconds(text) else parse_duration(text)
    if not 0 < found <= most_s:
        raise UsageError(
            f"{given.name} must be above 0 s and at most {age(most_s)}, not {text[:40]}"
        )
    return found


def _is_milliseconds(text: str) -> bool:
    return text.endswith("ms") and text[:-2].replace(".", "", 1).isdecimal() and len(text) < 12  # noqa: PLR2004 (digits)


def _choice(values: GivenValues, path: str) -> str | None:
    given, names = values.get(path), _kind(ChoiceKind, path).names
    if given is None or given.text in names:
        return given.text if given else None
    raise UsageError(f"{given.name} must be {_joined(names, 'or')}, not {given.text[:40]!r}")


def _bits(values: GivenValues, path: str) -> int:
    given, names = values.get(path), _kind(ChoiceKind, path).names
    if given is None:
        return 16
    bits = parse_count(given.text, given.name, most=max(map(int, names)))
    if str(bits) not in names:
        raise UsageError(f"{given.name} must be {_joined(names, 'or')}, not {bits}")
    return bits


def _joined(names: Sequence[str], word: str = "and") -> str:
    """`a, b and c`."""
    return f" {word} ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _flag(given: GivenValue) -> bool:
    word = given.text.lower()
    if word not in FLAG_WORDS:
        raise UsageError(f"{given.name} must be true or false, not {given.text[:40]!r}")
    return FLAG_WORDS[word]
