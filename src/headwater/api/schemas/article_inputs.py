"""Request models for articles: marks, undo, scores and annotations (A3, E1, E4)."""

from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from headwater.api.schemas.inputs import Id, Line, RequestModel, without_defaults
from headwater.api.schemas.outputs import EXAMPLE_ARTICLE, ArticleOut, PostOut
from headwater.operations.articles import MAX_BATCH_NAME
from headwater.rules.annotations import MAX_BYTES, MAX_DEPTH, annotations_text

# not strict: JSON has lists, not tuples; fail_fast: report one wrong id, not thousands
ArticleIds = Annotated[tuple[Id, ...], Field(strict=False, fail_fast=True, max_length=10_000)]
BatchName = Annotated[Line, Field(min_length=1, max_length=MAX_BATCH_NAME)]


class ArticleIdsIn(RequestModel):
    """A selection of articles."""

    ids: ArticleIds = Field(description="The ids of the articles.")
    batch: BatchName | None = Field(
        default=None,
        description="A name such as `episode 12`, to list and undo them by. Articles that were "
        "processed before keep theirs.",
        examples=["episode 12"],
    )
    skip_missing: bool = Field(
        default=False,
        description="Mark the others if some ids do not exist; otherwise the response is 404 and "
        "no article is marked.",
    )


_UNDO_RULES: dict[str, Any] = {  # JSON schema: `ids` or `batch`
    "oneOf": [
        {"required": ["ids"], "properties": {"ids": {"type": "array"}, "batch": {"type": "null"}}},
        {
            "required": ["batch"],
            "properties": {"ids": {"type": "null"}, "batch": {"type": "string"}},
        },
    ]
}


class UndoIn(RequestModel):
    """Processed articles to undo: some, or a batch."""

    model_config = ConfigDict(json_schema_extra=_UNDO_RULES)
    ids: ArticleIds | None = Field(default=None, description="The ids of the articles.")
    batch: BatchName | None = Field(
        default=None,
        description="The name of the batch; instead of `ids`.",
        examples=["episode 12"],
    )


def _storable_annotations(annotations: dict[str, Any]) -> dict[str, Any]:
    annotations_text(annotations)
    return annotations


class AnnotationsIn(RequestModel):
    """What a client stores with a post or article; a field that is not given is kept."""

    model_config = ConfigDict(json_schema_extra=without_defaults)
    score: Annotated[float, Field(allow_inf_nan=False)] | None = Field(
        default=None, description="Any number; null removes it.", examples=[0.75]
    )
    annotations: Annotated[dict[str, Any], AfterValidator(_storable_annotations)] | None = Field(
        default=None,
        description=f"A JSON object of at most {MAX_BYTES:,} bytes as compact JSON, and "
        f"{MAX_DEPTH} levels. It replaces the stored one; null removes it.",
        examples=[{"topic": "rivers"}],
    )

    def changes(self) -> dict[str, Any]:
        """The given values by name."""
        given = self.given()
        return {name: given[name] for name in ("score", "annotations") if name in given}


class PostPatch(AnnotationsIn):
    """What to change of a post."""

    response_model = PostOut


class ArticlePatch(AnnotationsIn):
    """What to change of an article."""

    response_model = ArticleOut


class ArticleChange(ArticlePatch):
    """What to change of one of several articles."""

    id: Id = Field(description="The id of the article.", examples=[EXAMPLE_ARTICLE])


# not strict: JSON has lists, not tuples
ArticleChanges = Annotated[tuple[ArticleChange, ...], Field(strict=False, max_length=10_000)]
