"""What a request asks of the sampler, or the pooler, enters; complete parameters leave.

Rules of this file: public names only.
"""

from foreword.sampling.complete import complete_sampling, get_max_tokens
from foreword.sampling.constraint_limits import check_constraint
from foreword.sampling.constraints import RepetitionDetection, StructuredOutputs
from foreword.sampling.fields import GenerationFields, StreamOptions
from foreword.sampling.limits import check_limits, check_prompt_fields
from foreword.sampling.model_defaults import default_sampling_params
from foreword.sampling.model_side import with_bad_words, with_generation_config
from foreword.sampling.params import OutputKind, SamplingParams
from foreword.sampling.pooling import (
    LateChunkingParams,
    LateInteractionParams,
    PoolingParams,
    complete_pooling,
)

__all__ = [
    "GenerationFields",
    "LateChunkingParams",
    "LateInteractionParams",
    "OutputKind",
    "PoolingParams",
    "RepetitionDetection",
    "SamplingParams",
    "StreamOptions",
    "StructuredOutputs",
    "check_constraint",
    "check_limits",
    "check_prompt_fields",
    "complete_pooling",
    "complete_sampling",
    "default_sampling_params",
    "get_max_tokens",
    "with_bad_words",
    "with_generation_config",
]
