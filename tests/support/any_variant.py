"""A debate of any variant at all, with whatever its protocol asks for from outside."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from madke.core.knowledge import Hits, KnowledgePool
from madke.core.question import Question
from madke.core.transcript import Stance, Transcript, Turn
from madke.engine.debate import debate
from madke.engine.parse import marked
from madke.engine.protocol import Protocol
from madke.engine.scene import Scene
from madke.llm import ScriptedChat
from madke.tasks import TASKS
from madke.variants import Variant
from tests.conftest import passage
from tests.support.debates import QUESTION, Reply
