"""The context length a model type has when its config.json does not say: type in, tokens out.

Rules of this file: facts only, no logic beyond the look-up. A saved config.json leaves out what
equals its class's default, so a missing key is not a missing value (Gemma 3's vision models).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

# Source: the configuration classes of transformers 5.20, each made without arguments.
_MAX_POSITION_EMBEDDINGS: Final = {
    510: "nystromformer",
    512: (
        "albert align align_text_model bert bert-generation blenderbot-small blip blip_2_qformer "
        "blip_text_model bros camembert chinese_clip chinese_clip_text_model convbert "
        "data2vec-text deberta deberta-v2 distilbert dpr electra encoder-decoder ernie flaubert "
        "flava flava_text_model fnet granite_speech5_encoder grounding-dino ibert "
        "instructblip_qformer instructblipvideo_qformer layoutlm layoutlmv2 layoutlmv3 layoutxlm "
        "lilt longformer luke lxmert markuplm megatron-bert mm-grounding-dino mobilebert "
        "moonshine mpnet mra openai-gpt prophetnet rembert roberta roberta-prelayernorm roc_bert "
        "sew-d speech-encoder-decoder splinter squeezebert trocr tvp vision-encoder-decoder "
        "vision-text-dual-encoder visual_bert xlm xlm-roberta xmod"
    ),
    514: (
        "altclip altclip_text_model bridgetower bridgetower_text_model clap clap_text_model "
        "xlm-roberta-xl"
    ),
    1024: (
        "bart biogpt canary canary_decoder cohere_asr decision_transformer dia_encoder florence2 "
        "fsmt git gpt-sw3 gpt2 gpt_bigcode imagegpt m2m_100 marian mbart mvp nllb-moe pegasus "
        "plbart rag rwkv seamless_m4t tapas"
    ),
    1536: "roformer",
    2048: (
        "aria aria_text bitnet blip-2 codegen csm dbrx deepseek_ocr2 deepseek_ocr2_text "
        "deepseek_v2 deepseek_vl deepseek_vl_hybrid diffllama doge dots1 esmc exaone4 exaone4_5 "
        "exaone_moe falcon gpt_neo gpt_neox gpt_neox_japanese gptj granite granite4_vision "
        "granite4_vision_text granite_speech granite_speech_plus granitemoe granitemoe_swa "
        "granitemoehybrid granitemoeshared higgs_audio_v2 hrm_text hunyuan_v1_dense "
        "hunyuan_v1_moe hunyuan_vl hunyuan_vl_text hyperclovax hyperclovax_vision_v2 idefics "
        "idefics3 instructblip instructblipvideo janus kosmos-2 kosmos_2_text_model llama llava "
        "llava_next llava_next_video musicgen_decoder musicgen_melody_decoder nanochat nomic_bert "
        "olmo olmo2 olmo3 opt perceiver perception_lm phi smolvlm video_llava vipllava xglm"
    ),
    2560: "pp_formulanet pp_formulanet_text",
    3072: "dia dia_decoder",
    4096: (
        "arcee big_bird bigbird_pegasus blt chameleon deepseek_v3 deepseek_v32 flex_olmo helium "
        "jetmoe kimi_k2 kimi_k25 kosmos-2.5 kosmos_2_5_text_model moonshine_streaming nemotron "
        "nemotron_h nemotron_h_omni olmoe phi3 reformer seamless_m4t_v2 stablelm starcoder2 yoso "
        "zamba zamba2"
    ),
    8192: (
        "aya_vision beam blt_patcher cohere cohere2 cohere2_moe cohere2_vision cohere_compass "
        "cohere_compass_text colmodernvbert colpali eurobert evolla EvollaModel falcon_h1 gemma "
        "gemma2 glmasr granite_swa gte jais2 modernbert modernbert-decoder modernvbert paligemma "
        "pe_audio pe_audio_video pe_video t5_gemma_module t5gemma vaultgemma"
    ),
    8194: "jina_embeddings_v3",
    9216: "emu3 emu3_text_model",
    16384: "afmoe fuyu neomme pegasus_x persimmon",
    24576: "blt_local_decoder blt_local_encoder",
    32768: (
        "audioflamingo3 axk1 colqwen2 deepseek_ocr2_encoder fast_vlm gemma3n gemma3n_text glm46v "
        "glm4v glm4v_text glmga got_ocr2 idefics2 internvl llava_onevision minicpm3 minicpmv4_6 "
        "minicpmv4_7 musicflamingo ovis2 pp_chart2table qianfan_ocr qwen2 qwen2_5_omni "
        "qwen2_5_omni_talker qwen2_5_omni_text qwen2_5_omni_thinker qwen2_5_vl qwen2_5_vl_text "
        "qwen2_audio qwen2_moe qwen2_vl qwen2_vl_text qwen3 qwen3_5 qwen3_5_moe qwen3_5_moe_text "
        "qwen3_5_text qwen3_moe qwen3_next qwen3_omni_moe qwen3_omni_moe_talker_code_predictor "
        "qwen3_omni_moe_talker_text qwen3_omni_moe_text qwen3_omni_moe_thinker qwen4_exp "
        "qwen4_exp_text smollm3 ultrabert unlimited_ocr unlimited_ocr_text vibevoice "
        "vibevoice_asr video_llama_3"
    ),
    36864: "molmo2 molmo2_text",
    40960: "fun_asr_nano lighton_ocr",
    65536: "apertus glm4v_moe glm4v_moe_text olmo_hybrid qwen3_asr",
    128000: (
        "cosmos3_omni lfm2 lfm2_moe lfm2_vl qwen3_vl qwen3_vl_moe qwen3_vl_moe_text qwen3_vl_text "
        "step3p5 step3p7"
    ),
    131072: (
        "axk2 cosmos3_edge cosmos3_edge_text cwm diffusion_gemma diffusion_gemma_text ernie4_5 "
        "ernie4_5_moe ernie4_5_vl_moe ernie4_5_vl_moe_text gemma3 gemma3_text gemma4 gemma4_text "
        "glm glm4 glm4_moe glm_image glm_image_text glm_ocr glm_ocr_text gpt_oss hy_v3 "
        "inkling_mm_model inkling_text laguna llama4 llama4_text longcat_flash mellum "
        "mimo_v2_flash minimax ministral mistral mistral3 mixtral mllama mllama_text_model "
        "moss_transcribe_diarize muse_glimmer muse_glimmer_text openai_privacy_filter "
        "paddleocr_vl paddleocr_vl_text phi4_multimodal phimoe shieldgemma2 solar_open t5gemma2 "
        "t5gemma2_decoder t5gemma2_encoder t5gemma2_text voxtral voxtral_realtime "
        "voxtral_realtime_text youtu zaya"
    ),
    196608: "minimax_m2",
    202752: "glm4_moe_lite glm_moe_dsa",
    262144: (
        "bailing_hybrid bamba embedding_gemma2 embedding_gemma2_text gemma4_unified "
        "gemma4_unified_assistant gemma4_unified_text hy_v4 jamba kolibri1 ministral3"
    ),
    524288: "minimax_m3_vl minimax_m3_vl_text seed_oss",
    1048576: "deepseek_v4 glm5_next glm5_next_text kimi_linear mistral4 muse_spark muse_spark_text",
}

_OTHER_KEYS: Final = {
    "mpt": ("max_seq_len", 2048),
    "speech_to_text": ("max_target_positions", 1024),
    "whisper": ("max_target_positions", 448),
}

_DEFAULTS: Final[dict[str, tuple[str, int]]] = _OTHER_KEYS | {
    name: ("max_position_embeddings", length)
    for length, names in _MAX_POSITION_EMBEDDINGS.items()
    for name in names.split()
}

ORIGINAL_LENGTHS: Final = {"phi3": 4096, "phi4_multimodal": 4096}
"""`original_max_position_embeddings` of the types whose class has a default for it."""


_RENAMED: Final = {
    "bailing_hybrid": "model_max_length",
    "codegen": "n_positions",
    "ctrl": "n_positions",
    "dbrx": "max_seq_len",
    "decision_transformer": "n_positions",
    "gpt-sw3": "n_positions",
    "gpt2": "n_positions",
    "gpt_bigcode": "n_positions",
    "gptj": "n_positions",
    "imagegpt": "n_positions",
    "inkling_text": "model_max_length",
    "kimi_linear": "model_max_length",
    "openai-gpt": "n_positions",
}
"""Another name of the length in the types whose class has one."""


def with_default(lengths: Mapping[str, float], model_type: str | None) -> dict[str, float]:
    """Return the lengths a config.json names, with the one its model type's class fills in."""
    known = _DEFAULTS.get(model_type or "")
    if known is None or _RENAMED.get(model_type or "") in lengths:
        return dict(lengths)
    return {known[0]: known[1], **lengths}
