#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Small images of each format, and what Pillow reads from them.

    pip install pillow       (in a venv outside the repository)
    make_images.py

Writes tests/golden/images: NAME.jpg, .png or .webp, and NAME.ppm with its pixels: turned as
its Exif orientation says, and over white where it is transparent. resize.tsv says which
files are which at another size. huge.png has the head of an image of 60000 x 60000 pixels
and 45 bytes."""

import os
import struct
import zlib

from PIL import Image, ImageOps

OUT = "tests/golden/images"
SIZE = 37, 23


def picture(mode, size=SIZE, seed=1):
    """Slopes, an edge and some noise."""
    w, h = size
    state, px = seed, []
    for y in range(h):
        for x in range(w):
            state = (state * 1103515245 + 12345) % 2**31
            edge = 90 if (x - w / 2) ** 2 + (y - h / 2) ** 2 < h * h / 9 else 0
            noise = state >> 16 & 15
            px.append((min(x * 6 + noise, 255), min(y * 9 + edge, 255),
                       min(edge * 2 + noise, 255), 255 - x * 5))
    img = Image.new("RGBA", size)
    img.putdata(px)
    return img if mode == "RGBA" else img.convert("RGB").convert(mode)


def chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(
        ">I", zlib.crc32(kind + data))


def png(width, height, depth, colour, interlace, rows):
    return (b"\x89PNG\r\n\x1a\n" +
            chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0,
                                       interlace)) +
            chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def interlaced(img):
    """Adam7: seven smaller images, each with its start and step."""
    rows, px = b"", img.load()
    for x0, y0, dx, dy in ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4),
                           (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)):
        for y in range(y0, img.height, dy):
            rows += b"\0" + b"".join(bytes(px[x, y]) for x in range(x0, img.width, dx))
    return png(img.width, img.height, 8, 2, 1, rows)


def pixels(img):
    img = ImageOps.exif_transpose(img)
    if "A" in img.mode or "transparency" in img.info:
        rgba = img.convert("RGBA")
        white = Image.new("RGBA", rgba.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, rgba).convert("RGB")
    if img.mode.startswith("I"):  # 16 bits: the upper eight
        img = img.point(lambda v: v / 256).convert("L")
    return img.convert("RGB")


def save(name, img, **options):
    path = os.path.join(OUT, name)
    img.save(path, **options)
    with Image.open(path) as again:
        pixels(again).save(os.path.splitext(path)[0] + ".ppm")


def write(name, raw):
    path = os.path.join(OUT, name)
    with open(path, "wb") as f:
        f.write(raw)
    with Image.open(path) as again:
        pixels(again).save(os.path.splitext(path)[0] + ".ppm")


def main():
    os.makedirs(OUT, exist_ok=True)
    rgb, rgba = picture("RGB"), picture("RGBA")
    save("baseline.jpg", rgb, quality=85)
    save("progressive.jpg", rgb, quality=85, progressive=True)
    save("gray.jpg", picture("L"), quality=85)
    save("cmyk.jpg", rgb.convert("CMYK"), quality=95, subsampling=0)
    for orientation in range(2, 9):
        exif = Image.Exif()
        exif[0x112] = orientation
        save(f"turned{orientation}.jpg", rgb, quality=85, exif=exif)
    save("rgb.png", rgb)
    save("rgba.png", rgba)
    save("wide.png", picture("RGB", (90, 41), 5))
    save("luma.png", picture("L"))
    save("palette.png", rgb.quantize(16))
    save("holes.png", rgb.quantize(16), transparency=3)
    deep = b"".join(b"\0" + b"".join(struct.pack(">H", (x * 1700 + y * 311) % 65536)
                                     for x in range(SIZE[0])) for y in range(SIZE[1]))
    write("deep.png", png(*SIZE, 16, 0, 0, deep))
    write("interlaced.png", interlaced(rgb))
    save("lossy.webp", rgb, quality=80)
    save("lossless.webp", rgb, lossless=True)
    save("alpha.webp", rgba, lossless=True, exact=True)
    rgb.save(os.path.join(OUT, "moving.webp"), save_all=True,
             append_images=[picture("RGB", seed=7)])
    with open(os.path.join(OUT, "huge.png"), "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(
            ">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)) + chunk(b"IDAT", b""))
    with open(os.path.join(OUT, "resize.tsv"), "w") as f:
        for w, h in ((16, 16), (37, 5), (3, 23), (80, 61), (37, 23), (1, 1), (20, 48)):
            for how, end in ((Image.Resampling.BICUBIC, ""),
                             (Image.Resampling.BILINEAR, "-bilinear")):
                name = f"rgb-{w}x{h}{end}.ppm"
                rgb.resize((w, h), how).save(os.path.join(OUT, name))
                f.write(f"{w}\t{h}\t{name}\n")


main()
