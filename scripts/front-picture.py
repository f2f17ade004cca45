#!/usr/bin/env python3
"""Makes the picture on top of README.md of examples: a study's chart beside the page of a run.

    scripts/front-picture.py [PROGRAM]     PROGRAM: privgrad, by default that of build/

Writes docs/front-light.webp and docs/front-dark.webp, from examples/studies/epsilon.yaml and
examples/manifests/quickstart.yaml. Takes a minute, and Chromium, which also encodes them.
"""

import base64
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
WIDTH, HEIGHT, SCALE = 1240, 600, 1.5
LIMIT = 100_000  # bytes of a picture

PAGE = """<!doctype html><meta charset="utf-8"><style>{style}
body {{ margin: 0; height: {height}px; display: flex; gap: 28px; padding: 24px 28px; overflow: hidden; }}
section {{ width: 520px; flex: none; }} h2 {{ border: 0; margin: 0 0 14px; padding: 0; font: 600 17px monospace; }}
.chart svg {{ font-size: 12px; }} .shown {{ flex: 1; }} .csv, figcaption a {{ display: none; }}
iframe {{ width: 100%; height: 541px; border: 1px solid var(--line); border-radius: .4rem; }}
</style><section><h2>privgrad ablate epsilon.yaml</h2>{figure}</section>
<section class="shown"><h2>privgrad run quickstart.yaml --set mode=release</h2><iframe src="{run}"></iframe></section>"""

ENCODE = """<!doctype html><body><script>
const image = new Image();
image.onload = () => {{
  const canvas = document.createElement("canvas");
  canvas.width = image.width; canvas.height = image.height;
  canvas.getContext("2d").drawImage(image, 0, 0);
  document.body.textContent = canvas.toDataURL("image/webp", 0.75);
}};
image.src = "data:image/png;base64,{png}";
</script>"""


def browser(*arguments):
    common = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
              "--allow-file-access-from-files", "--virtual-time-budget=5000"]
    return subprocess.run([*common, *arguments], check=True, capture_output=True, timeout=120).stdout.decode()


def first_chart(page):
    """The style of a page of reports, and its first chart."""
    text = page.read_text(encoding="utf-8")
    style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)[1]
    return style, re.search(r"<figure .*?</figure>", text, re.DOTALL)[0]


def picture(folder, page, dark):
    """The page in one of the two colour schemes, as WebP."""
    png = folder / "shot.png"
    browser(f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={WIDTH},{HEIGHT}",
            f"--force-device-scale-factor={SCALE}", f"--screenshot={png}", page.as_uri())
    encoder = folder / "encode.html"
    encoder.write_text(ENCODE.format(png=base64.b64encode(png.read_bytes()).decode()), encoding="utf-8")
    webp = re.search(r"data:image/webp;base64,([A-Za-z0-9+/=]+)", browser("--dump-dom", encoder.as_uri()))
    return base64.b64decode(webp[1])


def main():
    program = sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/bin/privgrad"
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for call in (["ablate", ROOT / "examples/studies/epsilon.yaml", "--out", folder / "study"],
                     ["run", ROOT / "examples/manifests/quickstart.yaml", "--out", folder / "run", "--quiet",
                      "--set", "mode=release", "--set", "data.test_is_public=true"]):
            subprocess.run([program, *call], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        style, figure = first_chart(folder / "study/report.html")
        page = folder / "front.html"
        page.write_text(PAGE.format(style=style, figure=figure, height=HEIGHT - 48,
                                    run=(folder / "run/report.html").as_uri()), encoding="utf-8")
        for scheme in ("light", "dark"):
            made = picture(folder, page, scheme == "dark")
            if len(made) > LIMIT:
                sys.exit(f"front-{scheme}.webp: {len(made)} bytes, at most {LIMIT}")
            (ROOT / f"docs/front-{scheme}.webp").write_bytes(made)


if __name__ == "__main__":
    main()
