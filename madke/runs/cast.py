"""Who plays which role: models opened by name, behind the call store, the retries and the limiter."""

from __future__ import annotations

import resource
from collections.abc import Mapping

from madke.core.chat import ChatModel
from madke.core.errors import UserError, unknown
from madke.engine.protocol import Protocol, role_key
from madke.llm import CallStore, Limited, Limiter, Limits, Retrying, Stored, open_model
from madke.llm.endpoints import Models, probe, refuse_two_addresses
from madke.llm.models import MODEL_FORMS, WITH_ENDPOINT, kind_of, names_code
from madke.runs.meter import Meter, Metered

_OTHER_FILES = 256
"""Open files that are no connections: indexes, the call store, libraries; generously."""


def role_models(protocol: Protocol, model: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """The name of the model that plays each role.

    Args:
        protocol: Its debaters may name models of their own.
        model: Everybody else's.
        overrides: Role -> model, above both. Roles are matched without case, spaces, hyphens and underscores:
            ``debater-1`` is ``Debater 1``.

    Raises:
        UserError: An override names a role that the protocol does not have, or the protocol names code
            (``module:object``): a folder of prompts may be anybody's, so only the command line reaches code.
    """
    for debater in protocol.cast:
        if debater.model and names_code(debater.model):
            raise UserError(
                f"the protocol asks for code as the model of {debater.name}, {debater.model!r}; if you trust it, say "
                f"--cast {role_key(debater.name)}={debater.model} yourself, without it in the protocol"
            )
    own = {debater.name: debater.model for debater in protocol.cast if debater.model}
    names = {role: own.get(role, model) for role in protocol.roles}
    by_key = {role_key(role): role for role in protocol.roles}
    for role, name in overrides.items():
        if role_key(role) not in by_key:
            raise unknown("role", role, protocol.roles)
        names[by_key[role_key(role)]] = name
    return names


def has_endpoint(name: str) -> bool:
    """Whether a base URL can say where the model of that name is: also one of ``models.yaml``, or of a plugin."""
    return kind_of(name) in WITH_ENDPOINT or kind_of(name) not in MODEL_FORMS


def open_models(
    names: Mapping[str, str],
    *,
    base_url: str | None = None,
    replay: bool = False,
    models: Models | None = None,
    probed: bool = True,
) -> dict[str, ChatModel]:
    """Role -> model, one model for all roles of a name. Close each with :func:`madke.llm.close`.

    Endpoints are probed: one that is not there is found in less than five seconds, before anything is paid.

    Args:
        names: Role -> model name.
        base_url: The endpoint of the models that have none of their own.
        replay: Models are only named, never asked: no endpoint and no key is needed.
        models: The entries of ``models.yaml``; see :func:`madke.llm.open_model`.
        probed: False leaves the probe to the caller.

    Raises:
        UserError: A model cannot be opened, a name leads to two addresses, an endpoint is not there, or a base URL is
            given and no model has an endpoint.
    """
    opened: dict[str, ChatModel] = {}
    remote = [name for name in names.values() if has_endpoint(name)]
    if base_url is not None and not remote:
        raise UserError(
            f"--base-url is for openai/NAME and azure/DEPLOYMENT; the models are {', '.join(names.values())}"
        )
    for name in names.values():
        if name not in opened:
            opened[name] = open_model(name, base_url=base_url if name in remote else None, replay=replay, models=models)
    refuse_two_addresses(opened.values())
    if probed and not replay:
        probe(opened.values())
    return {role: opened[name] for role, name in names.items()}


def guarded(
    models: Mapping[str, ChatModel],
    *,
    limiter: Limits | Limiter,
    store: CallStore | None = None,
    replay: bool = False,
    meter: Meter | None = None,
    payer: str = "",
) -> dict[str, ChatModel]:
    """The models behind limiter, retries, meter and call store (the last two where given), from the inside out.

    The meter is inside the store: it counts what is asked of models now, not what the store remembers.

    Args:
        models: Role -> model.
        limiter: One limiter for each endpoint, or one for all.
        store: Where calls are looked up and written.
        replay: Answer from the store alone.
        meter: Where calls are counted.
        payer: Names the run among those that share the store.
    """

    def guard(model: ChatModel) -> ChatModel:
        own = limiter.of(model) if isinstance(limiter, Limits) else limiter
        guarded: ChatModel = Retrying(Limited(model, own), on_event=meter.count_retry if meter else None)
        if meter is not None:
            guarded = Metered(guarded, meter)
        return Stored(guarded, store, replay=replay, payer=payer) if store else guarded

    return {role: guard(model) for role, model in models.items()}


def allow_connections(concurrency: int) -> None:
    """Raise this process's soft limit of open files where so many connections need it.

    Raises:
        UserError: The system's hard limit is below that.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    needed = concurrency + _OTHER_FILES
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        raise UserError(
            f"--concurrency {concurrency} needs {needed} open files, and this system allows {hard} (ulimit -Hn)"
        )
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))
