#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What Hugging Face Transformers sees of videos with the checkpoints of make_vision.py, in float32
on the CPU.

    pip install torch torchvision transformers safetensors pillow   (in a venv)
    make_video.py

Writes tests/golden/vision:
  sizes-video.tsv      smart_resize of Qwen3-VL's videos: frames, factor, least and most pixels,
                       tokens of a frame at most (0: no bound), width and height, then the width
                       and height that come out
  choices-video.tsv    sample_frames of the video processors of Qwen3-VL and Qwen3-Omni: which of
                       them (0 or 1), frames of the file and in a second, frames wanted a second,
                       frames wanted (0: by those a second), least and most frames, then the
                       frames chosen
  NAME/video_preprocessor_config.json
  NAME/video.json      prompts with videos, as make_vision.py's sight.json

The frames are resized by Pillow; torchvision's differ by a step of 8 bits, or two where they grow. The
frames' times stand where Qwen3-VL was trained to see them: in place of all that the chat template
writes for a video. Transformers 5.24 leaves the template's tags around them. A video of one frame,
which Transformers refuses, has that frame twice, as qwen-vl-utils makes it."""

import json
import os
import random

import torch
from PIL import Image
from torchvision.transforms.v2.functional import pil_to_tensor
from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor
from transformers.models.qwen3_vl.processing_qwen3_vl import Qwen3VLProcessor
from transformers.models.qwen3_vl.video_processing_qwen3_vl import (
    Qwen3VLVideoProcessor, smart_resize)

from transformers.video_utils import VideoMetadata

import make_vision as v

VIDEO = v.SPECIAL["<|video_pad|>"]
SHOWN = "<|vision_start|><|video_pad|><|vision_end|>"
PROCESSOR = {**v.PROCESSOR, "size": {"shortest_edge": 2048, "longest_edge": 6000},
             "video_processor_type": "Qwen3VLVideoProcessor"}
CASES = [  # images, videos as frames and how many there are in a second, text
    ([], [(["rgb.png", "luma.png", "palette.png", "interlaced.png"], 2)],
     v.turn(SHOWN, "What happens?")),
    (["wide.png"], [(["palette.png", "rgb.png", "luma.png"], 1.5)],
     v.turn("First ", v.SEE, " and then ", SHOWN, " of both: say it")),
    ([], [(["rgb.png"], 2), (["luma.png", "rgb.png", "interlaced.png", "rgb.png", "palette.png",
                             "luma.png", "rgb.png"], 0.3)],
     v.turn(SHOWN, SHOWN, "Which one is longer?")),
]


def see(names, kind=Qwen3VLVideoProcessor):
    """Patches, and their grid."""
    frames = [v.load(n) for n in names]
    frames += frames[-1:] if len(frames) == 1 else []
    processor = kind(**PROCESSOR)
    options = {"return_tensors": "pt", "do_sample_frames": False}
    other = processor(videos=[torch.stack([pil_to_tensor(f) for f in frames])], **options)
    h, w = (int(x) * v.PROCESSOR["patch_size"] for x in other["video_grid_thw"][0][1:])
    frames = [pil_to_tensor(f.resize((w, h), Image.BICUBIC)) for f in frames]
    seen = processor(videos=[torch.stack(frames)], do_resize=False, **options)
    steps = (seen["pixel_values_videos"] - other["pixel_values_videos"]).abs().max() * 127.5
    assert steps < 2.01, steps  # 1 but where frames are three times as large
    return seen["pixel_values_videos"], seen["video_grid_thw"]


def spell(text, videos, grids):
    for (names, fps), grid in zip(videos, grids):
        indices = list(range(max(len(names), 1))) if len(names) > 1 else [0, 0]
        times = Qwen3VLProcessor._calculate_timestamps(None, indices, fps, 2)
        assert len(times) == grid[0]
        n = int(grid[1:].prod()) // 4
        text = text.replace(SHOWN, "".join(
            "<%s seconds><|vision_start|>%s<|vision_end|>" % (f"{t:.1f}", "\0" * n)
            for t in times), 1)
    return text.replace("\0", "<|video_pad|>")


def answer(ids, names, videos, text, run, n=2):
    n_prompt, steps = len(ids), []
    for _ in range(n):
        with torch.no_grad():
            row = torch.log_softmax(run(torch.tensor([ids])).logits[0].double(), -1)[-1]
        top = row.topk(5)
        assert int(top.indices[0]) < 500, "an answer of special tokens"
        steps.append({"token": int(top.indices[0]),
                      "top": [[int(t), round(float(p), 5)]
                              for p, t in zip(top.values, top.indices)]})
        ids.append(int(top.indices[0]))
    print("   ", names, videos, n_prompt, "tokens")
    return {"images": names, "videos": [{"frames": f, "fps": fps} for f, fps in videos],
            "text": text, "ids": ids[:n_prompt], "steps": steps}


def case(model, tokenizer, names, videos, text):
    extra = {}
    image_grids = []
    if names:
        pixels, image_grids, _ = v.see(names)
        extra.update(pixel_values=pixels, image_grid_thw=image_grids)
    seen = [see(frames) for frames, _ in videos]
    grids = torch.cat([g for _, g in seen])
    extra.update(pixel_values_videos=torch.cat([p for p, _ in seen]), video_grid_thw=grids)
    ids = v.expand(tokenizer, spell(text, videos, grids), image_grids)
    return answer(ids, names, videos, text, lambda t: model(
        input_ids=t, use_cache=False, **extra,
        mm_token_type_ids=(t == v.PAD).int() + 2 * (t == VIDEO).int()))


def make(name):
    folder = os.path.join(v.OUT, name)
    tokenizer = v.tokenizer_files(folder)
    with open(os.path.join(folder, "video_preprocessor_config.json"), "w") as f:
        json.dump(PROCESSOR, f, indent=1)
    model = v.MODELS[name][1].from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").eval()
    with open(os.path.join(folder, "video.json"), "w") as f:
        json.dump({"model": name, "reference": "tests/golden/make_video.py",
                   "cases": [case(model, tokenizer, *c) for c in CASES]}, f)
    print(folder)


OMNI_CASES = [
    ([], [(["rgb.png", "luma.png", "palette.png", "interlaced.png", "rgb.png"], 2)],
     v.turn(SHOWN, "What happens?")),
    (["wide.png"], [(["luma.png", "rgb.png"], 1), (["palette.png", "luma.png", "rgb.png"], 26)],
     v.turn("First ", SHOWN, " and then ", v.SEE, " and ", SHOWN, " of all: say it")),
]


def make_omni():
    """Qwen3-Omni, by make_omni.py: all pairs of frames stand together, and positions have their
    times. Its processor gives each frame 128 to 768 tokens."""
    import transformers as hf

    PROCESSOR["size"] = {"shortest_edge": 128 * 64, "longest_edge": 768 * 64}
    folder = os.path.join(v.OUT, "qwen3omni")
    with open(os.path.join(folder, "tokenizer.json")) as f:
        tokenizer = v.Tokenizer.from_str(f.read())
    model = hf.Qwen3OmniMoeForConditionalGeneration.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="eager",
        experts_implementation="eager").thinker.eval()
    cases = []
    for names, videos, text in OMNI_CASES:
        extra, image_grids = {}, []
        if names:
            extra["pixel_values"], extra["image_grid_thw"], _ = v.see(names)
            image_grids = extra["image_grid_thw"]
        seen = [see(frames, Qwen2VLVideoProcessor) for frames, _ in videos]
        extra.update(pixel_values_videos=torch.cat([p for p, _ in seen]),
                     video_grid_thw=torch.cat([g for _, g in seen]),
                     video_second_per_grid=torch.tensor([2 / fps for _, fps in videos]))
        for _, grid in seen:
            text = text.replace("<|video_pad|>", "\0" * (int(grid.prod()) // 4), 1)
        ids = v.expand(tokenizer, text.replace("\0", "<|video_pad|>"), image_grids)
        cases.append(answer(ids, names, videos, OMNI_CASES[len(cases)][2], lambda t: model(
            input_ids=t, attention_mask=torch.ones_like(t), use_cache=False, **extra)))
    with open(os.path.join(folder, "video.json"), "w") as f:
        json.dump({"model": "qwen3omni", "reference": "tests/golden/make_video.py",
                   "cases": cases}, f)


def write_sizes():
    rng = random.Random(4)
    with open(os.path.join(v.OUT, "sizes-video.tsv"), "w") as f:
        for _ in range(300):
            n, factor = rng.randint(2, 40), rng.choice((32, 8))
            least = rng.choice((4096, 128 * 1024, 1024))
            most = max(least, rng.choice((25165824, 768 * 1024, 1 << 16)))
            w = rng.choice((rng.randint(1, 60), rng.randint(1, 4000)))
            h = max(1, min(4000, int(w * rng.choice((1, 0.5625, 1.7, 0.01, 90)))))
            cap = rng.choice((0, 0, 768, 100))
            bound = most
            if cap:  # as Qwen3VLVideoProcessor.resize has it
                bound = n * max(min(cap * factor * factor, most // n), int(least * 1.05))
            try:
                oh, ow = smart_resize(n, h, w, 2, factor, least, bound)
            except ValueError:
                continue
            f.write("\t".join(map(str, (n, factor, least, most, cap, w, h, ow, oh))) + "\n")


def write_choices():
    rng = random.Random(5)
    kinds = Qwen3VLVideoProcessor(**PROCESSOR), Qwen2VLVideoProcessor(**PROCESSOR)
    with open(os.path.join(v.OUT, "choices-video.tsv"), "w") as f:
        for i in range(240):
            total = rng.choice((rng.randint(2, 30), rng.randint(2, 3000)))
            fps = rng.choice((24, 25, 30, 12.5, 30000 / 1001, 60, 1))
            rate, n = rng.choice((2, 1, 0.5, 7.3)), rng.choice((0, 0, rng.randint(2, 40)))
            least, most = rng.choice((2, 4)), rng.choice((8, 19, 40))
            of = {"num_frames": n} if n else {"fps": rate}
            kind = kinds[i % 2]
            kind.min_frames, kind.max_frames = least, most
            data = VideoMetadata(total_num_frames=total, fps=fps)
            try:
                at = kind.sample_frames(data, **of, **(
                    {"min_frames": least, "max_frames": most, "temporal_patch_size": 2}
                    if i % 2 else {}))
            except ValueError:  # fewer than are asked for
                at = []
            if len(at) and int(at[-1]) >= total:  # arange's rounding led it beyond the end
                continue
            f.write("\t".join(map(str, (i % 2, total, repr(float(fps)), rate, n, least, most,
                                        ",".join(str(int(k)) for k in at)))) + "\n")


def main():
    torch.set_num_threads(2)
    write_sizes()
    write_choices()
    for name in ("qwen3vl", "qwen35"):
        make(name)
    make_omni()


if __name__ == "__main__":
    main()
