#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Schemas that pydantic makes of random models, one a line, for schema_suite.py.

usage: schema_pydantic.py [N [SEED]] > FILE.jsonl    (300 of seed 1; needs `pydantic`)

Fields with bounds, literals, enums, dates, decimals, sets, tuples, maps, unions with and without
a discriminator, models in models and in themselves, aliases, and extra fields of all three kinds.
"""
import datetime
import decimal
import enum
import json
import random
import sys
import typing as T
import uuid

import pydantic as P
from pydantic import Field

NAMES = ["id", "name", "kind", "tags", "size", "when", "owner", "parts", "notes", "score"]
EXTRA = ["forbid", "forbid", "ignore", "allow"]


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


class Tree(P.BaseModel):
    model_config = {"extra": "forbid"}
    value: int
    children: T.List["Tree"] = Field(max_length=2)


class Maker:
    def __init__(self, seed):
        self.r = random.Random(seed)
        self.made = 0

    def whole(self):
        low = self.r.choice([0, 1, -7, 1000])
        return T.Annotated[int, Field(**{self.r.choice(["ge", "gt"]): low,
                                         self.r.choice(["le", "lt"]): low + self.r.randint(3, 90)})]

    def text(self):
        return T.Annotated[str, self.r.choice([
            Field(max_length=12), Field(min_length=1, max_length=8), Field(pattern="^[A-Z]{2}-\\d+$"),
            Field(pattern="^[a-z_]+$", max_length=9)])]

    def plain(self):
        return self.r.choice([self.whole, self.text, lambda: bool, lambda: Colour, lambda: Level,
                              lambda: datetime.date, lambda: datetime.datetime, lambda: uuid.UUID,
                              lambda: datetime.time, lambda: datetime.timedelta,
                              lambda: T.Literal["a", "b", 3, None],
                              lambda: T.Annotated[decimal.Decimal, Field(max_digits=5)],
                              lambda: T.Annotated[float, Field(ge=0, le=1)]])()

    def one_of(self, depth):
        """A union that a constant member tells apart."""
        kinds = [self.model(depth + 1, kind=(T.Literal[k], ...)) for k in ("cat", "dog")]
        return T.Annotated[T.Union[tuple(kinds)], Field(discriminator="kind")]

    def any(self, depth):
        if depth > 2 or self.r.random() < .45:
            return self.plain()
        inner = lambda: self.any(depth + 1)  # noqa: E731
        return self.r.choice([
            lambda: T.Annotated[T.List[inner()], Field(max_length=3)],
            lambda: T.Optional[inner()], lambda: T.Union[self.plain(), self.plain()],
            lambda: T.Annotated[T.Set[T.Literal["x", "y", "z"]], Field(min_length=1)],
            lambda: T.Tuple[self.plain(), self.plain()],
            lambda: T.Annotated[T.Dict[str, self.plain()], Field(max_length=2)],
            lambda: T.Dict[T.Literal["left", "right"], self.plain()],
            lambda: Tree, lambda: self.one_of(depth), lambda: self.model(depth + 1)])()

    def field(self, name, depth):
        kind = self.any(depth)
        if self.r.random() < .25:
            return T.Optional[kind], None
        return kind, Field(alias=name.upper()) if self.r.random() < .1 else ...

    def model(self, depth, **more):
        self.made += 1
        names = self.r.sample([n for n in NAMES if n not in more], self.r.randint(1, 4))
        return P.create_model("Model%d" % self.made, __config__={"extra": self.r.choice(EXTRA)},
                              **more, **{n: self.field(n, depth + 1) for n in names})


def main():
    n, seed = (int(a) for a in (sys.argv[1:] + ["300", "1"][len(sys.argv) - 1:])[:2])
    maker = Maker(seed)
    for _ in range(n):
        print(json.dumps(maker.model(0).model_json_schema()))


if __name__ == "__main__":
    main()
