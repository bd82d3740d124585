#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""`make site`: each document and manual page is a page of it, links and anchors lead somewhere, nothing is loaded from elsewhere, and
Markdown is understood as the documents mean it."""
import html.parser, json, os, pathlib, re, shutil, subprocess, sys, tempfile, urllib.parse

SOURCE = pathlib.Path(os.environ["UROCE_SOURCE"])
LOADED = {"script": "src", "img": "src", "iframe": "src", "link": "href", "source": "src", "object": "data", "form": "action"}
problems = []


def check(good, *what):
    if not good:
        problems.append(" ".join(map(str, what)))


class Page(html.parser.HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.ids, self.links, self.loads, self.paragraphs, self.inside, self.code = set(), [], [], [], False, 0
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if "id" in attributes:
            self.ids.add(attributes["id"])
        if tag == "a" and "href" in attributes:
            self.links.append(attributes["href"])
        if tag in LOADED and LOADED[tag] in attributes:
            self.loads.append(attributes[LOADED[tag]])
        if tag == "p":
            self.paragraphs.append("")
            self.inside = True
        self.code += tag in ("code", "pre")

    def handle_endtag(self, tag):
        self.inside &= tag != "p"
        self.code -= tag in ("code", "pre")

    def handle_data(self, data):
        if self.inside and not self.code:
            self.paragraphs[-1] += data


def links_lead_somewhere(site, pages):
    for path, page in pages.items():
        for link in page.links + page.loads:
            target = urllib.parse.urlparse(link)
            if target.scheme or target.netloc:
                continue
            to = (path.parent / urllib.parse.unquote(target.path)).resolve() if target.path else path
            check(to.is_file(), f"{path.relative_to(site)}: no file for {link}")
            if target.fragment and to in pages:
                check(urllib.parse.unquote(target.fragment) in pages[to].ids, f"{path.relative_to(site)}: no anchor for {link}")


def nothing_is_loaded_from_elsewhere(site, pages):
    for path, page in pages.items():
        for load in page.loads:
            check(not re.match(r"([a-z]+:)?//|https?:", load), f"{path.relative_to(site)} loads {load}")
    for path in site.rglob("*.css"):
        remote = re.search(r"(@import|url\()\s*[\"']?(https?:)?//[^)\s]*", path.read_text())
        check(not remote, f"{path.relative_to(site)}: {remote and remote[0]}")
    check(not [file for file in site.rglob("*") if file.is_symlink()], "symbolic links in the site")


def documents_are_there(site, pages):
    linked = {(site / link.partition("#")[0]).resolve() for link in pages[site / "index.html"].links}
    for pattern in ("docs/*.md", "man/*.[1-8]", "*.md"):
        for file in SOURCE.glob(pattern):
            name = str(file.relative_to(SOURCE)).removesuffix(".md") + ".html"
            check(site / name.replace("README", "index") in linked, f"the front page has no link to {name}")


def markdown_is_understood(site, pages):
    for path, page in pages.items():
        for text in page.paragraphs:
            check(not re.search(r"^\s*([-*]|\d\.) |^\s*\||^#+ |```", text, re.MULTILINE), f"{path.relative_to(site)}: {text!r}")
            check(not re.search(r"\]\(|\*\*", text), f"{path.relative_to(site)}: {text!r}")


def options_are_whole(site):
    """No browser breaks a line behind the hyphen of an option."""
    page = (site / "index.html").read_text()
    check('<span class="whole">--html</span>' in page, "--html may be broken")
    outside = re.sub(r"<pre.*?</pre>", "", page, flags=re.DOTALL)
    check(not re.search(r"<(code|td)>(?:(?!</\1>)[^<])*?(?<![\w-])--?[a-z]", outside), "an option that may be broken")
    check("docs/send.svg" in Page(page).loads and (site / "docs/send.svg").is_file(), "no picture")
    check("<pre" in page and "span" not in "".join(re.findall(r"<pre.*?</pre>", page, re.DOTALL)), "code is not as it was")


def the_search_has_its_words(site):
    index = (site / "search/search_index.js").read_text()
    check(index.startswith("var site_index = "), "the index is no script")
    texts = {page["location"]: page["text"] for page in json.loads(index[len("var site_index = "):].rstrip(";\n"))["docs"]}
    for page, word in (("docs/check.html", "AddressSanitizer"), ("man/uroce-fault.5.html", "partition"), ("docs/limits.html", "Linux")):
        check(word in texts.get(page, "") or any(word in text for name, text in texts.items() if name.startswith(page)),
              f"the index lacks {word} of {page}")
    check((site / "search/lunr.js").is_file() and "site_index" in (site / "search/main.js").read_text(), "no search")


def main():
    if os.environ.get("UROCE_QUICK"):
        print("texts: once is enough")
        sys.exit(77)
    for program in ("mkdocs", "mandoc"):
        if not shutil.which(program):
            print(f"no {program}")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as work:
        site = pathlib.Path(work).resolve() / "site"
        made = subprocess.run([SOURCE / "tools/make-site", site], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(made.returncode == 0, "make-site:", made.stdout)
        if not problems:
            pages = {path: Page(path.read_text()) for path in site.rglob("*.html")}
            links_lead_somewhere(site, pages)
            nothing_is_loaded_from_elsewhere(site, pages)
            documents_are_there(site, pages)
            markdown_is_understood(site, pages)
            options_are_whole(site)
            the_search_has_its_words(site)
    print("\n".join(problems))
    sys.exit(bool(problems))


if __name__ == "__main__":
    main()
