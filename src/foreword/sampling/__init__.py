"""What a request asks of the sampler enters; complete `SamplingParams` leave.

Rules of this file: public names only.
"""

from foreword.sampling.complete import complete_sampling, get_max_tokens
from foreword.sampling.constraints import RepetitionDetection, StructuredOutputs
from foreword.sampling.fields import GenerationFields, StreamOptions
from foreword.sampling.limits import check_limits
from foreword.sampling.model_defaults import default_sampling_params
from foreword.sampling.model_side import with_bad_words, with_generation_config
from foreword.sampling.params import OutputKind, SamplingParams

__all__ = [
    "GenerationFields",
    "OutputKind",
    "RepetitionDetection",
    "SamplingParams",
    "StreamOptions",
    "StructuredOutputs",
    "check_limits",
    "complete_sampling",
    "default_sampling_params",
    "get_max_tokens",
    "with_bad_words",
    "with_generation_config",
]
