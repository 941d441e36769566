"""Pages that could look different each time that they are drawn: movement, chance, the clock."""

import base64
import os
import struct
import zlib
from pathlib import Path
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


def _font(display: str, kind: str = "font/ttf") -> str:
    """The rule of a font `f`: the smallest one where `driver.INSTALL` puts fonts."""
    path = min(Path("/usr/share/fonts").rglob("*.ttf"), key=os.path.getsize, default=None)
    address = _encoded(kind, path.read_bytes() if path else b"")
    return f"@font-face{{font-family:f;src:url({address});font-display:{display}}}"


def _unseen(style: str) -> str:
    """A long page whose boxes are drawn only where the browser believes them to be on the screen."""
    boxes = "".join(f"<div style='contain-intrinsic-size:300px;{style}'><p>{i}</div>" for i in range(40))
    return f"<style>@layer a{{div{{content-visibility:auto!important}}}} p{{height:80px}}</style>{boxes}"


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
    "font that may come too late": _svg(
        f"<style>{_font('optional')} text{{font:40px f,monospace}}</style><text x='9' y='60'>font</text>"
    ),
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
    "timelines above all rules": f"<style>{_KEYS} @layer a{{p{{animation:k linear!important;animation-timeline:view()"
    "!important}div{animation:k linear!important}}</style><div style='animation-timeline:scroll()!important'>d"
    "<p>p</div><p style='margin-top:2000px'>low",
    "what is not on the screen": _unseen(""),
    "what is not on the screen, said in an attribute": _unseen("content-visibility:auto!important"),
    "closed details": "<details><summary>s</summary><p>hidden</details><p style='content-visibility:hidden'>p",
    "font that may come too late": f"<style>{_font('optional')} p{{font:40px f;content-visibility:auto}}</style>"
    f"{'<p>font</p>' * 40}<iframe srcdoc='<style>{_font('fallback')} p{{font:40px f}}</style><p>font'></iframe>",
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
_LONG = "<p style='height:2000px'>long</p>"


def _at_the_end(address: str) -> str:
    """A page that asks for a picture at the end of an animation."""
    return (
        f"<style>@keyframes c{{to{{background:url('{address}')}}}}p{{height:90px;animation:c 9s forwards}}</style><p>p"
    )


# Pages that are refused: what the browser draws or not by the moment, where no style of an element reaches it.
BY_THE_MOMENT = {
    "pseudo-element": "<style>p::before{display:block;content:'text';content-visibility:auto}</style>" + "<p>p" * 99,
    "inside a control": "<style>details::details-content{display:block;content-visibility:auto!important;"
    "contain-intrinsic-size:90px}</style>" + "<details><summary>s</summary>inner</details>" * 99,
    "timeline of a pseudo-element": f"<style>{_KEYS} p::before{{content:'text';animation:k;animation-timeline:view()}}"
    f"</style><p>p</p>{_LONG}<p>p",
    "drawing at the end of an animation": _at_the_end(data(_STYLED)),
}
_PARTS = (
    "details-content", "file-selector-button", "placeholder", "-moz-color-swatch", "-moz-meter-bar",
    "-moz-progress-bar", "-moz-range-progress", "-moz-range-thumb", "-moz-range-track", "-webkit-slider-thumb",
)  # fmt: skip
_MARQUEE = (
    "<marquee {} scrollamount=50 scrolldelay=1>running <b style='visibility:visible!important'>text</b></marquee>"
)
# Pages with parts that are no elements of them, which are drawn.
CONTROLS = {
    "animations of parts": f"<style>{_KEYS}{''.join(f'::{part}{{{_FAST}}}' for part in _PARTS)}</style>"
    "<details open><summary>s</summary>in</details><input type=file><input placeholder=text><input type=color>"
    "<input type=range><meter value=.5></meter><progress value=.5></progress>",
    "marquee with text that is visible": _MARQUEE.format("style='visibility:visible!important'"),
    "marquee that is laid out otherwise": "".join(
        _MARQUEE.format(f"style='display:{kind};overflow:visible;direction:rtl' direction=up")
        for kind in ("inline", "contents", "grid", "inline-block!important")
    ),
    "videos without a file": "<video controls src='data:video/mp4;base64,AAAA' poster='data:,'></video>"
    "<video controls src='movie.mp4'><source src=x.mp4></video><audio controls src='data:audio/wav,x'></audio>",
}

# Pages that show what they can see of earlier pages: of each, one that leaves something and one that would show it. No
# other page has this picture, or this address of the font.
_PICTURE, _LEFT = data(_svg("<rect width='91' height='90'/>")), "font/ttf;x=left"
LEFT_BEHIND = {
    "picture": (
        f'<img src="{_PICTURE}">',
        _at_the_end(_PICTURE),
    ),
    "font": (
        f"<style>{_font('block', _LEFT)} p{{font-family:f}}</style><p>p",
        f"<style>{_font('optional', _LEFT)} p{{font:40px f,monospace}}</style><p>font",
    ),
    "place": (
        f"{_LONG}<i style='scroll-initial-target:nearest'>here</i>{_LONG}",
        f"<b style='position:fixed;top:0'>fixed</b>{_LONG}{_LONG}",
    ),
}


def _shows(script: str, html: str = "") -> str:
    return f"{html}<pre id=o></pre><script>const show=(...a)=>o.append(a.join(' ')+'\\n');{script}</script>"


# A page whose scripts ask for the time, for chance and for the focus, and that is drawn.
SCRIPTED = "<input autofocus style='font-size:90px;caret-color:red!important'>" + _shows(
    "const seen=(e)=>show(Date.now(),e[0].isIntersecting,e[0].intersectionRatio,e[0].contentRect?.width,e[0].time);"
    "new IntersectionObserver(seen,{threshold:[0,.5,1]}).observe(o);"
    "let n=0;new ResizeObserver((e)=>{seen(e);if(n++<9)o.style.width=300-n+'px'}).observe(o);"
    "setTimeout(()=>{o.style.marginTop='150px'},500);"
    "const f=(d)=>{show(Date.now(),d.timeRemaining());if(n++<9)requestIdleCallback(f)};requestIdleCallback(f);"
    "show(performance.now(),performance.timeOrigin,JSON.stringify(performance.getEntriesByType('navigation')),"
    "performance.memory?.usedJSHeapSize,new Event('x').timeStamp,document.timeline.currentTime);"
    "new PerformanceObserver((l)=>show(l.getEntries().length)).observe({entryTypes:['paint','resource']});"
    "setInterval(()=>{document.title=c.textContent=new Date().toLocaleTimeString()},100);"
    "show(navigation.currentEntry?.key,navigation.entries().map((e)=>e.id),history.length);"
    "document.body.style.background=navigator.hardwareConcurrency===4&&navigator.connection===undefined"
    "&&`${new Date(0)}`==='Thu Jan 01 1970 00:00:00 GMT+0000 (Coordinated Universal Time)'?'#0f0':'red'",
    "<b id=c></b>",
)
# Pages with scripts that are refused.
UNSTEADY = {
    "address of an object": _shows("show(URL.createObjectURL(new Blob(['x'])))"),
    "shadow tree": _shows(
        "document.body.attachShadow({mode:'closed'}).innerHTML='<marquee>m</marquee><progress></progress>'"
    ),
}
_SHADOW = "<div><template {}=closed><marquee>m</marquee><progress></progress></template></div>".format
# Pages that are refused.
SHADOWS = {
    "shadow tree": _SHADOW("shadowrootmode"),
    "shadow tree in capitals": _SHADOW("ShadowRootMode"),
    "shadow tree in a frame": "<iframe srcdoc='<div><template shadowroot&#109;ode=closed><marquee>m</marquee>'>",
}

# Pages that scroll themselves and boxes in them smoothly, by what does it: in real time they would be on their way.
_INNER = "<p style='height:6000px;background:red'>y<p id=end>end<p style='height:900px'>z"
_BOX = f"<div id=@ style='height:150px;overflow:auto'>{_INNER}</div>"
_SCROLLED = (
    "<style>html,div{scroll-behavior:smooth}i{position:fixed;top:0;left:0;width:100%;height:90px;background:#000}"
    f"</style><body style='margin:0'><i></i><div style='height:250px'></div>{_BOX}BOX{_LONG}"
)
SCROLLING = {
    "play script": "<script src='https://cdn.tailwindcss.com'></script>"
    "<meta http-equiv=refresh content='1;url=#end'>" + _SCROLLED.replace("BOX", ""),
    "scripts": _SCROLLED.replace("BOX", _BOX.replace("@", "late").replace("id=end", ""))
    + "<script>const box=document.querySelector('div[id]');onload=()=>{scrollTo({top:250,behavior:'smooth'});"
    "box.scrollBy({top:6200,behavior:'smooth'})};setTimeout(()=>{late.scrollTop=6200},900)</script>",
}
