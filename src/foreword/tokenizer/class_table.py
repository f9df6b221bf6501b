"""What transformers 5.20 knows by name: model types to tokenizer classes, and their defaults.

What enters: nothing. What leaves: six tables of facts, read by `declared_class`.

Rules of this file: data only. `tests/parity/test_tokenizer_parity.py` compares every row with
transformers itself; update both together.
"""

from __future__ import annotations


def _names(words: str) -> frozenset[str]:
    return frozenset(words.split())


GENERIC = "TokenizersBackend"
"""The class that takes tokenizer.json as it is."""

_MODEL_TYPES_BY_CLASS = {
    "AlbertTokenizer": ("albert yoso"),
    "BartTokenizer": ("florence2"),
    "BarthezTokenizer": ("barthez"),
    "BartphoTokenizer": ("bartpho"),
    "BertJapaneseTokenizer": ("bert-japanese"),
    "BertTokenizer": (
        "align bark bert blip bros chinese_clip convbert distilbert electra ernie flava git "
        "grounding-dino layoutlm megatron-bert mm-grounding-dino nezha nomic_bert qdqbert "
        "realm retribert squeezebert tvp vilt visual_bert"
    ),
    "BertweetTokenizer": ("bertweet"),
    "BigBirdTokenizer": ("big_bird"),
    "BioGptTokenizer": ("biogpt"),
    "BlenderbotSmallTokenizer": ("blenderbot-small"),
    "BlenderbotTokenizer": ("blenderbot"),
    "ByT5Tokenizer": ("byt5"),
    "CLIPTokenizer": (
        "aimv2 clip clipseg groupvit omdet-turbo oneformer owlv2 owlvit sam3 sam3_video xclip"
    ),
    "CTRLTokenizer": ("ctrl"),
    "CamembertTokenizer": ("camembert"),
    "CanineTokenizer": ("canine"),
    "ClvpTokenizer": ("clvp"),
    "CodeLlamaTokenizer": ("code_llama"),
    "CohereTokenizer": ("aya_vision cohere cohere2"),
    "CpmAntTokenizer": ("cpmant"),
    "CpmTokenizer": ("cpm"),
    "DPRQuestionEncoderTokenizer": ("dpr"),
    "DebertaTokenizer": ("deberta"),
    "DebertaV2Tokenizer": ("deberta-v2"),
    "DiaTokenizer": ("dia"),
    "EsmTokenizer": ("esm"),
    "EsmcTokenizer": ("esmc esmfold2"),
    "FNetTokenizer": ("fnet"),
    "FSMTTokenizer": ("fsmt"),
    "FlaubertTokenizer": ("flaubert"),
    "FunnelTokenizer": ("funnel"),
    "GPT2Tokenizer": (
        "blip-2 codegen dbrx emu3 gpt2 gpt_neo gptj hyperclovax_vision_v2 instructblip "
        "instructblipvideo jais2 opt phi starcoder2"
    ),
    "GPTNeoXJapaneseTokenizer": ("gpt_neox_japanese"),
    "GPTNeoXTokenizer": ("falcon_mamba gpt_neox mamba mamba2 mpt olmo olmoe rwkv xlstm"),
    "GemmaTokenizer": (
        "diffusion_gemma gemma gemma2 gemma3 gemma3_text gemma3n gemma3n_text recurrent_gemma "
        "shieldgemma2 t5gemma zaya"
    ),
    "HerbertTokenizer": ("herbert"),
    "LEDTokenizer": ("led"),
    "LasrTokenizer": ("lasr_ctc lasr_encoder"),
    "LayoutLMv2Tokenizer": ("layoutlmv2"),
    "LayoutLMv3Tokenizer": ("layoutlmv3"),
    "LayoutXLMTokenizer": ("layoutxlm"),
    "LlamaTokenizer": ("idefics idefics2"),
    "LukeTokenizer": ("luke"),
    "LxmertTokenizer": ("lxmert"),
    "MBart50Tokenizer": ("mbart50"),
    "MBartTokenizer": ("mbart"),
    "MPNetTokenizer": ("mpnet"),
    "MarkupLMTokenizer": ("markuplm"),
    "MgpstrTokenizer": ("mgp-str"),
    "MobileBertTokenizer": ("mobilebert"),
    "MvpTokenizer": ("mvp"),
    "MyT5Tokenizer": ("myt5"),
    "NllbTokenizer": ("nllb nllb-moe"),
    "NougatTokenizer": ("nougat pp_formulanet"),
    "OpenAIGPTTokenizer": ("openai-gpt"),
    "PLBartTokenizer": ("plbart"),
    "ParakeetTokenizer": (
        "granite_speech5_ctc nemotron3_5_asr nemotron_asr_streaming parakeet_ctc "
        "parakeet_rnnt parakeet_tdt"
    ),
    "PegasusTokenizer": ("pegasus"),
    "PerceiverTokenizer": ("perceiver"),
    "PhobertTokenizer": ("phobert"),
    "ProphetNetTokenizer": ("prophetnet"),
    "Qwen2Tokenizer": (
        "audioflamingo3 colqwen2 cosmos3_omni fun_asr_nano hunyuan_vl internvl lighton_ocr "
        "moss_transcribe_diarize ovis2 qianfan_ocr qwen2 qwen2_5_omni qwen2_5_vl qwen2_audio "
        "qwen2_moe qwen2_vl qwen3 qwen3_asr qwen3_moe qwen3_next qwen3_omni_moe qwen3_vl "
        "qwen3_vl_moe vibevoice"
    ),
    "Qwen3_5Tokenizer": ("qwen3_5 qwen3_5_moe qwen3_5_moe_text qwen3_5_text qwen4_exp"),
    "RagTokenizer": ("rag"),
    "ReformerTokenizer": ("reformer"),
    "RemBertTokenizer": ("rembert"),
    "RoCBertTokenizer": ("roc_bert"),
    "RoFormerTokenizer": ("roformer"),
    "RobertaTokenizer": (
        "bart bridgetower clap data2vec-text ibert lilt longformer mega mra roberta "
        "roberta-prelayernorm"
    ),
    "SeamlessM4TTokenizer": ("seamless_m4t seamless_m4t_v2"),
    "Siglip2Tokenizer": ("siglip2"),
    "SplinterTokenizer": ("splinter"),
    "T5Tokenizer": ("mt5 musicgen musicgen_melody switch_transformers t5"),
    "TapasTokenizer": ("tapas"),
    "TokenizersBackend": (
        "EvollaModel arctic aria beam bigbird_pegasus camembertv2-base canary chameleon "
        "chatlm cohere_asr deepseek_ocr deepseek_ocr2 deepseek_v2 deepseek_v3 deepseek_v32 "
        "deepseek_v4 deepseek_vl deepseek_vl_hybrid deepseek_vl_v2 ernie4_5 ernie4_5_moe "
        "flex_olmo fuyu glm glm4 glm4_moe glm4_moe_lite glm4v glm4v_moe glm_image glmasr "
        "got_ocr2 gpt_bigcode granite granitemoe granitemoehybrid granitemoeshared h2ovl_chat "
        "hyperclovax hyperclovax_vlm internlm2 jamba janus kimi_k25 kimi_linear kosmos-2 "
        "llava llava_next mimo_v2_flash minicpm3 minicpmv minicpmv4_6 minicpmv4_7 minimax_m2 "
        "ministral ministral3 mistral mistral3 mixtral modernbert modernbert-decoder molmo "
        "molmo2 nemotron nvfp4 nystromformer olmo2 olmo3 olmo_hybrid opencua openvla "
        "paddleocr_vl pegasus_x persimmon phi3 phi3_v phimoe pix2struct pixtral smolvlm "
        "stablelm step3_vl step3p5 umt5 unlimited_ocr vipllava voxtral voxtral_realtime "
        "xlm-roberta-xl"
    ),
    "UdopTokenizer": ("udop"),
    "VideoPrismTokenizer": ("videoprism"),
    "VitsTokenizer": ("vits"),
    "Wav2Vec2CTCTokenizer": (
        "data2vec-audio hubert unispeech unispeech-sat wav2vec2 wav2vec2-bert wav2vec2-conformer"
    ),
    "Wav2Vec2PhonemeCTCTokenizer": ("wav2vec2_phoneme"),
    "WhisperTokenizer": ("whisper"),
    "XGLMTokenizer": ("xglm"),
    "XLMRobertaTokenizer": ("gte jina_embeddings_v3 metaclip_2 trocr xlm-roberta xmod"),
    "XLMTokenizer": ("xlm"),
    "XLNetTokenizer": ("xlnet"),
}

CLASS_BY_MODEL_TYPE: dict[str, str] = {
    model_type: name
    for name, model_types in _MODEL_TYPES_BY_CLASS.items()
    for model_type in model_types.split()
}
"""The class transformers registers for a model type."""

MISDECLARED_IN_TRANSFORMERS = _names(
    "arctic camembertv2-base chameleon chatlm cohere_asr deepseek_ocr deepseek_ocr2 "
    "deepseek_v2 deepseek_v3 deepseek_v32 deepseek_v4 deepseek_vl deepseek_vl_hybrid "
    "deepseek_vl_v2 ernie4_5 ernie4_5_moe fuyu h2ovl_chat hyperclovax "
    "hyperclovax_vision_v2 hyperclovax_vlm internlm2 jamba janus llava llava_next "
    "minicpm3 minicpmv minimax_m2 modernbert modernbert-decoder molmo molmo2 nemotron "
    "nvfp4 opencua openvla paddleocr_vl phi3 phi3_v phimoe qwen2 qwen3_5 qwen3_5_moe "
    "qwen3_5_moe_text qwen4_exp siglip2 smolvlm step3_vl step3p5 unlimited_ocr vipllava"
)
"""Model types whose hub files declare a wrong class, which transformers overrules."""

MISDECLARED_IN_VLLM = _names(
    "internlm2 step3_vl step3p7 step5 step5_vl unlimited-ocr unlimited_ocr"
)
"""Model types for which vLLM 0.33 takes the generic class, whatever is declared."""

PYTHON_CLASSES = _names(
    "BartphoTokenizer BertGenerationTokenizer BertJapaneseTokenizer BertweetTokenizer "
    "BioGptTokenizer BlenderbotSmallTokenizer ByT5Tokenizer CTRLTokenizer CanineTokenizer "
    "ClvpTokenizer CpmAntTokenizer CpmTokenizer DiaTokenizer EsmTokenizer FSMTTokenizer "
    "FastSpeech2ConformerTokenizer FlaubertTokenizer GPTNeoXJapaneseTokenizer "
    "GPTSw3Tokenizer M2M100Tokenizer MarianTokenizer MgpstrTokenizer MyT5Tokenizer "
    "PLBartTokenizer PerceiverTokenizer PhobertTokenizer Pop2PianoTokenizer "
    "ProphetNetTokenizer RagTokenizer RoCBertTokenizer SiglipTokenizer "
    "Speech2TextTokenizer SpeechT5Tokenizer TapasTokenizer VitsTokenizer "
    "Wav2Vec2CTCTokenizer Wav2Vec2PhonemeCTCTokenizer XLMTokenizer"
)
"""Classes that tokenize in Python and do not use tokenizer.json."""

CLASS_ALIASES = {
    "ElectraTokenizer": "BertTokenizer",
    "LayoutLMTokenizer": "BertTokenizer",
    "LongformerTokenizer": "RobertaTokenizer",
    "Phi3Tokenizer": "LlamaTokenizer",
}
"""Names that files declare and transformers takes for another class."""

TYPED_CLASSES = _names(
    "BertTokenizer CanineTokenizer ConvBertTokenizer DPRContextEncoderTokenizer "
    "DPRQuestionEncoderTokenizer DebertaTokenizer DebertaV2Tokenizer FNetTokenizer "
    "LayoutLMv2Tokenizer LxmertTokenizer MarkupLMTokenizer MobileBertTokenizer "
    "SqueezeBertTokenizer TapasTokenizer"
)
"""Classes that give token types where nobody asks (`model_input_names`)."""

_CLASSES = (
    (
        "Unigram",
        "bos=[CLS] eos=[SEP] unk=<unk> sep=[SEP] pad=<pad> cls=[CLS] mask=[MASK]",
        "AlbertTokenizer FNetTokenizer RemBertTokenizer",
    ),
    (
        "BPE",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>",
        "BartTokenizer BlenderbotTokenizer LEDTokenizer LayoutLMv3Tokenizer MarkupLMTokenizer "
        "MvpTokenizer NllbTokenizer RobertaTokenizer",
    ),
    (
        "",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>",
        "BarthezTokenizer CamembertTokenizer",
    ),
    (
        "WordPiece",
        "unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]",
        "BertTokenizer ConvBertTokenizer DPRContextEncoderTokenizer "
        "DPRQuestionEncoderTokenizer DPRReaderTokenizer DistilBertTokenizer "
        "LayoutLMv2Tokenizer LxmertTokenizer MobileBertTokenizer SqueezeBertTokenizer",
    ),
    (
        "Unigram",
        "unk=<unk> bos=<s> eos=</s> pad=<pad> sep=[SEP] mask=[MASK] cls=[CLS]",
        "BigBirdTokenizer",
    ),
    (
        "BPE",
        "unk=<|endoftext|> bos=<|startoftext|> eos=<|endoftext|> pad=<|endoftext|>",
        "CLIPTokenizer",
    ),
    (
        "BPE",
        "unk=<|endoftext|> bos=<|endoftext|> eos=<|endoftext|>",
        "CodeGenTokenizer GPT2Tokenizer WhisperTokenizer",
    ),
    (
        "BPE",
        "unk=<unk> bos=<s> eos=</s> prefix=▁<PRE> middle=▁<MID> suffix=▁<SUF> eot=▁<EOT> "
        "fill=<FILL_ME>",
        "CodeLlamaTokenizer",
    ),
    (
        "BPE",
        "unk=<UNK> bos=<BOS_TOKEN> eos=<|END_OF_TURN_TOKEN|> pad=<PAD> cls=<CLS> sep=<SEP> "
        "mask=<MASK_TOKEN>",
        "CohereTokenizer",
    ),
    (
        "BPE",
        "bos=[CLS] eos=[SEP] sep=[SEP] cls=[CLS] unk=[UNK] pad=[PAD] mask=[MASK]",
        "DebertaTokenizer",
    ),
    (
        "Unigram",
        "bos=[CLS] eos=[SEP] unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]",
        "DebertaV2Tokenizer",
    ),
    (
        "BPE",
        "unk=<unk> cls=<cls> pad=<pad> mask=<mask> eos=<eos> chain_break=|",
        "EsmcTokenizer",
    ),
    (
        "WordPiece",
        "unk=<unk> sep=<sep> pad=<pad> cls=<cls> mask=<mask> bos=<s> eos=</s>",
        "FunnelTokenizer",
    ),
    (
        "BPE",
        "unk=<|endoftext|> bos=<|endoftext|> eos=<|endoftext|> pad=<|padding|>",
        "GPTNeoXTokenizer",
    ),
    (
        "BPE",
        "unk=<unk> bos=<bos> eos=<eos> pad=<pad> mask=<mask>",
        "GemmaTokenizer Siglip2Tokenizer",
    ),
    (
        "BPE",
        "cls=<s> unk=<unk> pad=<pad> mask=<mask> sep=</s>",
        "HerbertTokenizer",
    ),
    (
        "Unigram",
        "eos=</s> unk=<unk> pad=<pad>",
        "LasrTokenizer T5Tokenizer VideoPrismTokenizer",
    ),
    (
        "Unigram",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>",
        "LayoutXLMTokenizer MBartTokenizer XLMRobertaTokenizer",
    ),
    (
        "BPE",
        "unk=<unk> bos=<s> eos=</s>",
        "LlamaTokenizer",
    ),
    (
        "BPE",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask> entity_1=<ent> "
        "entity_2=<ent2> entity_unk=[UNK] entity_pad=[PAD] entity_mask=[MASK] "
        "entity_mask2=[MASK2]",
        "LukeTokenizer",
    ),
    (
        "Unigram",
        "eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask>",
        "MBart50Tokenizer",
    ),
    (
        "",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad> mask=<mask> entity_1=<ent> "
        "entity_2=<ent2> entity_unk=[UNK] entity_pad=[PAD] entity_mask=[MASK] "
        "entity_mask2=[MASK2]",
        "MLukeTokenizer",
    ),
    (
        "WordPiece",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=[UNK] pad=<pad> mask=<mask>",
        "MPNetTokenizer",
    ),
    (
        "BPE",
        "unk=<unk> bos=<s> eos=</s> pad=<pad>",
        "NougatTokenizer",
    ),
    (
        "BPE",
        "unk=<unk>",
        "OpenAIGPTTokenizer",
    ),
    (
        "",
        "",
        "ParakeetTokenizer",
    ),
    (
        "Unigram",
        "pad=<pad> eos=</s> unk=<unk> mask=<mask_2>",
        "PegasusTokenizer",
    ),
    (
        "BPE",
        "unk=<|endoftext|> eos=<|endoftext|> pad=<|endoftext|>",
        "Qwen2Tokenizer Qwen3_5Tokenizer",
    ),
    (
        "BPE",
        "eos=</s> unk=<unk>",
        "ReformerTokenizer",
    ),
    (
        "",
        "unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK]",
        "RoFormerTokenizer",
    ),
    (
        "BPE",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad>",
        "SeamlessM4TTokenizer",
    ),
    (
        "WordPiece",
        "unk=[UNK] sep=[SEP] pad=[PAD] cls=[CLS] mask=[MASK] question=[QUESTION]",
        "SplinterTokenizer",
    ),
    (
        "BPE",
        "unk=<unk> pad=<pad>",
        "Tipsv2Tokenizer",
    ),
    (
        "Unigram",
        "eos=</s> sep=</s> unk=<unk> pad=<pad>",
        "UdopTokenizer",
    ),
    (
        "Unigram",
        "bos=<s> eos=</s> sep=</s> cls=<s> unk=<unk> pad=<pad>",
        "XGLMTokenizer",
    ),
    (
        "Unigram",
        "bos=<s> eos=</s> unk=<unk> sep=<sep> pad=<pad> cls=<cls> mask=<mask>",
        "XLNetTokenizer",
    ),
)

MODEL_OF_CLASS: dict[str, str] = {
    name: model for model, _, names in _CLASSES for name in names.split()
}
"""The model (BPE, Unigram, WordPiece; empty: any) a class builds from tokenizer.json's entries."""

DEFAULT_SPECIAL_TOKENS: dict[str, dict[str, str]] = {
    name: {
        f"{role}_token": token for role, token in (pair.split("=", 1) for pair in defaults.split())
    }
    for _, defaults, names in _CLASSES
    for name in names.split()
}
"""The special tokens a class has where tokenizer_config.json does not say."""
