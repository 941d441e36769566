"""Pages that could look different each time that they are drawn: movement, chance, the clock."""

import base64
import struct
import zlib
from urllib.parse import quote

_KEYS = "@keyframes k{0%{background:#000;fill:#000}100%{background:#fff;fill:#fff;transform:translateX(80px)}}"
_FAST = "animation:k .037s linear infinite"
_RECT = "<rect width='90' height='90'/>"
_SMIL = "<animate attributeName='x' values='0;180' dur='.037s' repeatCount='9999'/>"


def _svg(content: str) -> str:
    return f"<svg xmlns='http://www.w3.org/2000/svg' width='200' height='100'>{content}</svg>"


def _styled(style: str) -> str:
    return _svg(f"<style>{_KEYS}{style}</style>{_RECT}")


def _inside(address: str) -> str:
    return _svg(f"<image width='90' height='90' href='{address}'/>")


def data(svg: str) -> str:
    """The address of a drawing, in which no quote is left."""
    return f"data:image/svg+xml,{quote(svg)}"


def _encoded(kind: str, content: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"


def _gif() -> str:
    """Two frames of 0.02 s, for ever: black, then white."""
    frame = b"\x21\xf9\x04\x00\x02\x00\x00\x00\x2c\x00\x00\x00\x00\x01\x00\x01\x00\x00\x02\x02%s\x01\x00"
    head = b"GIF89a\x01\x00\x01\x00\x80\x00\x00\x00\x00\x00\xff\xff\xff\x21\xff\x0bNETSCAPE2.0\x03\x01\x00\x00\x00"
    return _encoded("image/gif", head + frame % b"\x44" + frame % b"\x4c" + b";")


def _apng() -> str:
    """The same as a PNG."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    def control(number: int) -> bytes:
        return chunk(b"fcTL", struct.pack(">IIIIIHHBB", number, 1, 1, 0, 0, 2, 100, 0, 0))

    header = chunk(b"IHDR", struct.pack(">IIBBBBB", 1, 1, 8, 2, 0, 0, 0)) + chunk(b"acTL", struct.pack(">II", 2, 0))
    first = control(0) + chunk(b"IDAT", zlib.compress(b"\0\0\0\0"))
    second = control(1) + chunk(b"fdAT", struct.pack(">I", 2) + zlib.compress(b"\0\xff\xff\xff"))
    return _encoded("image/png", b"\x89PNG\r\n\x1a\n" + header + first + second + chunk(b"IEND", b""))


_STYLED = _styled(f"rect{{{_FAST}}}")
_CSS = quote(f"{_KEYS}rect{{{_FAST}}}")

# SVG pictures that move or cannot be read, by what makes them.
DRAWINGS = {
    "animation": _STYLED,
    "animation in capitals": _STYLED.replace("animation", "ANIMATION"),
    "animation that ends": _styled("rect{animation:k .3s .05s steps(99) forwards}"),
    "animation in an attribute": _svg(f"<style>{_KEYS}</style><rect width='90' height='90' style='{_FAST}'/>"),
    "transition": _styled("rect{transition:fill 9s}@starting-style{rect{fill:#fff}}"),
    "HTML": _svg(
        "<foreignObject width='200' height='100'><div xmlns='http://www.w3.org/1999/xhtml'><marquee>y</marquee>"
        "</div></foreignObject>"
    ),
    "HTML with a prefix": "<s:svg xmlns:s='http://www.w3.org/2000/svg' width='200' height='100'><s:foreignObject "
    "width='200' height='100'><marquee xmlns='http://www.w3.org/1999/xhtml'>y</marquee></s:foreignObject></s:svg>",
    "drawing inside": _inside(data(_STYLED)),
    "drawing inside, divided": _inside(data(_STYLED).replace("data:", "da&#10;ta:")),
    "drawing inside its style": _styled(f"rect{{mask:url({data(_STYLED)})}}"),
    "GIF inside": _inside(_gif()),
    "PNG inside": _inside(_apng()),
    "style in XML characters": _STYLED.replace("animation", "an&#105;mation"),
    "style in CSS characters": _STYLED.replace("animation", "an\\69mation"),
    "divided style": _STYLED.replace("animation", "anim<!-- -->ation").replace("infinite", "<![CDATA[infinite]]>"),
    "entity": f"<!DOCTYPE svg [<!ENTITY a 'anim'>]>{_STYLED.replace('animation', '&a;ation')}",
    "imported style": _svg(f"<style>@import 'data:text/css,{_CSS}';</style>{_RECT}"),
    "linked style": f"<?xml-stylesheet href='data:text/css,{_CSS}'?>{_svg(_RECT)}",
    "style of HTML": _svg(f"<link xmlns='http://www.w3.org/1999/xhtml' rel='stylesheet' href='data:text/css,{_CSS}'/>"),
    "cut": _STYLED.replace("</svg>", ""),
}

# Drawings that stand still, and are drawn.
STILL = {
    "plain": _svg(_RECT),
    "styled": _svg(f"<defs><style>.a{{fill:#123;opacity:.5}}</style></defs><g class='a'>{_RECT}</g>"),
    "of a program": f"<?xml version='1.0' encoding='UTF-8'?><!-- made by hand --><!DOCTYPE svg>{_svg(_RECT)}",
    "SMIL": _svg(f"<rect width='9' height='90'>{_SMIL}</rect>"),
    "photograph": _inside("data:image/jpeg;base64,/9j/4AAQSkZJRg=="),
    "random numbers": _svg(
        "<style>rect{width:random(1px,180px);fill:rgb(random(0,255) 0 0)}</style><rect width='9' height='90'/>"
    ),
}

# Places of a drawing in a page.
PLACES = {
    "picture": '<img src="@">',
    "picture set": '<picture><source srcset="@ 1x"><img></picture>',
    "image set": '<p style="height:90px;background:image-set(url(@) 1x)">p',
    "background": '<p style="height:90px;background:url(@)">p',
    "mask": '<p style="height:90px;background:red;mask:url(@)">p',
    "content": "<style>p::before{content:url(@)}</style><p>p",
    "list": '<ul style="list-style:url(@)"><li>p</ul>',
    "border": '<p style="border:30px solid;border-image:url(@) 30">p',
    "vector graphics": '<svg width=200 height=100><image href="@"/></svg>',
    "filter": '<svg><filter id=f><feImage href="@"/></filter></svg><p style="filter:url(#f);height:90px">p',
    "poster": '<video width=200 height=100 poster="@"></video>',
    "button": '<input type=image src="@">',
    "frame": "<iframe srcdoc='<img src=\"@\">'></iframe>",
    "animation of the page": "<style>@keyframes c{to{background:url(@)}}p{height:90px;animation:c .05s forwards}"
    "</style><p>p",
    "style sheet": "<link rel=stylesheet href='data:text/css,p{height:90px;background:url(%22@@%22)}'><p>p",
    "object": '<object data="@"></object><embed src="@"><iframe src="@"></iframe>',
}


def placed(place: str, svg: str) -> str:
    """The page that has a drawing at one of the places."""
    return PLACES[place].replace("@@", quote(data(svg))).replace("@", data(svg))


# Pages that are drawn.
PAGES = {
    "animation": f"<style>{_KEYS} p{{width:50px;{_FAST}}}</style><p>p",
    "animation after a delay": f"<style>{_KEYS} p{{animation:k .01s .1s steps(2) 7 alternate}}</style><p>p",
    "animation of a pseudo-element": f"<style>{_KEYS} p::after{{content:'x';{_FAST}}}</style><p>p",
    "animation of a registered property": "<style>@property --a{syntax:'<number>';inherits:true;initial-value:0}"
    "@keyframes k{to{--a:255}} p{animation:k .037s linear infinite;background:rgb(var(--a) 0 0)}</style><p>p",
    "transition from the start": "<style>p{transition:all .3s}@starting-style{p{background:#000}}</style><p>p",
    "transition by what loads": "<style>p{transition:all .2s;width:10px}:has(img) p{width:300px;background:#123}"
    "</style><img alt=a src='data:,'><p>p",
    "scroll and view timelines": f"<style>{_KEYS} p{{animation:k linear;animation-timeline:view()}}"
    "div{animation:k linear;animation-timeline:scroll()}</style><p>p<div>d</div><p style='margin-top:2000px'>low",
    "view transitions": f"<style>@view-transition{{navigation:auto}}{_KEYS}"
    f"::view-transition-group(root){{{_FAST}}}</style><p>p",
    "random numbers": "<style>p{width:random(10px,300px);background:rgb(random(0,255) 0 0)}"
    "p::after{content:'x';margin-left:random(--a element-shared,0px,99px);color:random-item(red,green)}</style><p>p",
    "marquee": "<marquee scrolldelay=1 scrollamount=50>running</marquee><marquee behavior=alternate>b</marquee>",
    "progress": "<progress></progress><progress style='appearance:none'></progress>",
    "blinking and caret": "<blink>b</blink><p style='text-decoration:blink'>p<textarea autofocus>t</textarea>",
    "dates and times": "<input type=date><input type=time><input type=datetime-local><input type=month>",
    "SMIL": f"<svg><rect width=9 height=90>{_SMIL}<set attributeName=fill to=red begin=0.05s /></rect></svg>",
    "moving filter": "<svg><filter id=f><feTurbulence baseFrequency=.1><animate attributeName=seed values='0;99'"
    " dur=.05s repeatCount=99 /></feTurbulence></filter></svg><p style='filter:url(#f);height:90px'>p",
    "GIF": f"<img width=90 height=90 src='{_gif()}'><p style='height:90px;background:url({_gif()})'>p",
    "PNG": f"<img width=90 height=90 src='{_apng()}'>",
    "counter": "<style>@keyframes c{to{counter-increment:n 999}} p{counter-reset:n;animation:c .037s infinite"
    " steps(99)}p::after{content:counter(n)}</style><p>p",
    "frame": f"<iframe srcdoc='<style>{_KEYS} p{{{_FAST}}}</style><p>p<marquee>m</marquee><progress></progress>'>",
}
_SHADOW = "<div><template {}=closed><marquee>m</marquee><progress></progress></template></div>".format
# Pages that are refused.
SHADOWS = {
    "shadow tree": _SHADOW("shadowrootmode"),
    "shadow tree in capitals": _SHADOW("ShadowRootMode"),
    "shadow tree in a frame": "<iframe srcdoc='<div><template shadowroot&#109;ode=closed><marquee>m</marquee>'>",
}
