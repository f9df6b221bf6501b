"""The decoder's prompt of a model with an encoder, against vLLM's own function."""

from __future__ import annotations

import random
from array import array

import pytest

from foreword.stages.encoder_decoder import DecoderStart, begin_decoder
from foreword.types import EngineInput

pytest.importorskip("vllm", reason="needs vLLM itself (0.32 or 0.33), with torch")

pytestmark = [pytest.mark.parity, pytest.mark.filterwarnings("ignore")]


@pytest.mark.witness(
    family="prompt:encoder and decoder",
    what="the decoder's ids, with and without its start token sent",
    against="vLLM's own function",
    needs="vLLM 0.32 or 0.33, with torch",
)
def test_the_start_token_stands_where_theirs_stands() -> None:
    from vllm.inputs import build_enc_dec_input
    from vllm.inputs.engine import tokens_input

    rng = random.Random(1)
    for _ in range(500):
        ids = rng.choices(range(4), k=rng.randrange(6))
        start = rng.randrange(4)
        theirs = build_enc_dec_input(
            encoder_input=tokens_input([7, 8]),
            decoder_input=tokens_input(list(ids)),
            decoder_start_token_id=start,
        )
        ours = begin_decoder(
            EngineInput(token_ids=array("I", ids)),
            DecoderStart(token_id=start),
            max_model_len=100,
        )
        assert list(ours.token_ids) == theirs["decoder_prompt"]["prompt_token_ids"]
