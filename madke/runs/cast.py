"""The cast of a run: which model plays each role, and the models opened."""

from collections.abc import Mapping

from madke.core.chat import ChatModel
from madke.core.errors import UserError, unknown
from madke.engine.protocol import Protocol
from madke.engine.protocol_parts import role_key
from madke.models.chat_models import open_model
from madke.models.endpoint import ModelEntries, refuse_two_addresses, refuse_unreachable
from madke.models.model_names import forms_with_endpoint, has_endpoint, names_code


def role_models(protocol: Protocol, model: str, overrides: Mapping[str, str]) -> dict[str, str]:
    """Role -> name of its model: from ``overrides``, else from the protocol, else ``model``.

    Roles match regardless of case, spaces, hyphens and underscores: ``debater-1`` is ``Debater 1``. A protocol that
    names code (``module:object``) is refused, since a prompt folder may come from an untrusted source.
    """
    for debater in protocol.cast:
        if debater.model and names_code(debater.model):
            raise UserError(
                f"the protocol names code as the model of {debater.name}, {debater.model!r}; if you trust it, remove "
                f"it from the protocol and pass --cast {role_key(debater.name)}={debater.model}"
            )
    own = {debater.name: debater.model for debater in protocol.cast if debater.model}
    names = {role: own.get(role, model) for role in protocol.roles}
    by_key = {role_key(role): role for role in protocol.roles}
    for role, name in overrides.items():
        if role_key(role) not in by_key:
            raise unknown("role", role, protocol.roles)
        names[by_key[role_key(role)]] = name
    return names


def open_models(
    names: Mapping[str, str],
    *,
    base_url: str | None = None,
    replay: bool = False,
    models: ModelEntries | None = None,
    probed: bool = True,
) -> dict[str, ChatModel]:
    """Role -> model; roles with the same model name share a model. Close each with ``close``.

    Under ``replay`` models are not called and need no endpoint and no key. Otherwise endpoints are probed, unless
    ``probed`` is False, so that an unreachable one is detected before any cost.
    """
    opened: dict[str, ChatModel] = {}
    remote = [name for name in names.values() if has_endpoint(name)]
    if base_url is not None and not remote:
        given = ", ".join(names.values())
        raise UserError(f"--base-url is for {forms_with_endpoint('and')}, but the models are {given}")
    for name in names.values():
        if name not in opened:
            opened[name] = open_model(name, base_url=base_url if name in remote else None, replay=replay, models=models)
    refuse_two_addresses(opened.values())
    if probed and not replay:
        refuse_unreachable(opened.values())
    return {role: opened[name] for role, name in names.items()}
