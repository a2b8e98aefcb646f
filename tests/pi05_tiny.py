"""LeRobot's own pi0.5 in small, the yardstick of ours: its classes with free sizes, its computation as it is."""

import torch
from lerobot.configs import FeatureType, PolicyFeature
from lerobot.policies.pi05.configuration_pi05 import PI05Config
from lerobot.policies.pi05.modeling_pi05 import PaliGemmaWithExpertModel, PI05Policy, PI05Pytorch
from lerobot.policies.pi_gemma import PaliGemmaForConditionalGenerationWithPiGemma, PiGemmaForCausalLM
from lerobot.policies.pretrained import PreTrainedPolicy
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from torch import nn
from transformers import PreTrainedTokenizerFast
from transformers.models.auto import CONFIG_MAPPING

STATE, TOKENS, WORDS = "observation.state", "observation.language.tokens", "observation.language.attention_mask"
HEAD, WRIST, FRONT = (f"observation.images.{name}" for name in ("head", "left_wrist", "front"))
CAMERAS = (HEAD, WRIST, FRONT)
SIZES = {
    "width": 64,
    "mlp_dim": 96,
    "depth": 3,
    "heads": 8,  # LeRobot's layers know no other number
    "head_dim": 16,
    "vocabulary": 600,
    "expert_width": 32,
    "expert_mlp_dim": 48,
    "vision_width": 32,
    "vision_mlp_dim": 40,
    "vision_layers": 2,
    "vision_heads": 4,
}
SHARED = {"chunk_size": 6, "n_action_steps": 4, "image_resolution": (28, 28), "tokenizer_max_length": 64}
FLAGS = (
    *(f"--policy.{key}={value}" for key, value in SIZES.items()),
    "--policy.chunk_size=6",
    "--policy.n_action_steps=4",
    "--policy.image_resolution=[28, 28]",
    "--policy.tokenizer_max_length=64",
)


def features(cameras=CAMERAS, dimensions=5):
    visual = {key: PolicyFeature(FeatureType.VISUAL, (3, 28, 28)) for key in cameras}
    return {
        "input_features": {STATE: PolicyFeature(FeatureType.STATE, (dimensions,)), **visual},
        "output_features": {"action": PolicyFeature(FeatureType.ACTION, (dimensions,))},
    }


def our_config(cameras=CAMERAS, **changes):
    from holdfast.policies.pi05.configuration_pi05 import Pi05FastConfig

    return Pi05FastConfig(**{"device": "cpu", **features(cameras), **SIZES, **SHARED, **changes})


def our_policy(seed=0, **changes):
    from holdfast.policies.pi05.modeling_pi05 import Pi05FastPolicy

    torch.manual_seed(seed)
    return shaken(Pi05FastPolicy(our_config(**changes)))


def peer_policy(seed=1, cameras=CAMERAS, sizes=SIZES, **changes):
    config = PI05Config(**{"device": "cpu", **features(cameras), **SHARED, **changes})
    torch.manual_seed(seed)
    return shaken(Peer(config, sizes))


def shaken(policy):
    """Every weight away from where it starts: a norm of zeros, a gate of ones would hide mistakes."""
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter.add_(0.05 * torch.randn_like(parameter))
    return policy.eval()


def make_batch(lengths=(9, 14, 30), cameras=CAMERAS, size=28, seed=2):
    """What both read: images in [0, 1], prompts of the given lengths padded to 40, actions."""
    draw = torch.Generator().manual_seed(seed)
    rows = len(lengths)
    words = torch.arange(40) < torch.tensor(lengths)[:, None]
    return {
        **{key: torch.rand(rows, 3, size, size, generator=draw) for key in cameras},
        TOKENS: torch.randint(4, SIZES["vocabulary"], (rows, 40), generator=draw) * words,
        WORDS: words,
        "action": torch.randn(rows, SHARED["chunk_size"], 5, generator=draw),
    }


def make_tokenizer(folder):
    """A small tokenizer with PaliGemma's habits: it begins with <bos>, pads with 0 and has a digit's own tokens."""
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    trained.decoder = decoders.ByteLevel()
    numbers = " ".join(str(n) for n in range(-1, 256))
    texts = [f"Task: {task}, State: {numbers};\nAction: " for task in ("Please reach.", "Please lift.", "Stack it.")]
    special = ["<pad>", "<eos>", "<bos>", "<unk>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trained.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=500, special_tokens=special, initial_alphabet=alphabet)
    )
    trained.post_processor = processors.TemplateProcessing(single="<bos> $A", special_tokens=[("<bos>", 2)])
    names = dict(zip(("pad_token", "eos_token", "bos_token", "unk_token"), special, strict=True))
    PreTrainedTokenizerFast(tokenizer_object=trained, **names).save_pretrained(folder)
    return str(folder)


class Peer(PI05Policy):
    """LeRobot's `pi05` of other sizes."""

    def __init__(self, config, sizes=SIZES, **kwargs):
        PreTrainedPolicy.__init__(self, config)
        config.validate_features()
        self.init_rtc_processor()
        self.model = PeerNetwork(config, sizes)
        self.reset()


class PeerNetwork(PI05Pytorch):
    def __init__(self, config, sizes):
        nn.Module.__init__(self)
        self.config, self.rtc_processor = config, None
        self.paligemma_with_expert = PeerLayers(config, sizes)
        width = sizes["expert_width"]
        self.action_in_proj, self.action_out_proj = (
            nn.Linear(config.max_action_dim, width),
            nn.Linear(width, config.max_action_dim),
        )
        self.time_mlp_in, self.time_mlp_out = nn.Linear(width, width), nn.Linear(width, width)
        self.gradient_checkpointing_enabled = False


class PeerLayers(PaliGemmaWithExpertModel):
    def __init__(self, config, sizes):
        nn.Module.__init__(self)
        self.freeze_vision_encoder = self.train_expert_only = False
        common = {
            "num_attention_heads": 8,
            "head_dim": sizes["head_dim"],
            "num_hidden_layers": sizes["depth"],
            "num_key_value_heads": 1,
            "hidden_activation": "gelu_pytorch_tanh",
            "vocab_size": sizes["vocabulary"],
        }
        text = {
            **common,
            "model_type": "gemma",
            "hidden_size": sizes["width"],
            "intermediate_size": sizes["mlp_dim"],
            "use_adarms": False,
            "adarms_cond_dim": None,
        }
        vision = {
            "model_type": "siglip_vision_model",
            "hidden_size": sizes["vision_width"],
            "intermediate_size": sizes["vision_mlp_dim"],
            "num_hidden_layers": sizes["vision_layers"],
            "num_attention_heads": sizes["vision_heads"],
            "patch_size": 14,
            "image_size": config.image_resolution[0],
            "projection_dim": sizes["width"],
            "projector_hidden_act": "gelu_fast",
            "vision_use_head": False,
        }
        paligemma = CONFIG_MAPPING["paligemma"](
            text_config=text,
            vision_config=vision,
            projection_dim=sizes["width"],
            image_token_index=sizes["vocabulary"] - 1,
        )
        expert = CONFIG_MAPPING["gemma"](
            **common,
            hidden_size=sizes["expert_width"],
            intermediate_size=sizes["expert_mlp_dim"],
            use_adarms=True,
            adarms_cond_dim=sizes["expert_width"],
        )
        self.paligemma = PaliGemmaForConditionalGenerationWithPiGemma(config=paligemma)
        self.gemma_expert = PiGemmaForCausalLM(config=expert)
        self.gemma_expert.model.embed_tokens = None
        self.to_bfloat16_for_selected_params("float32")
