"""Media from elsewhere: a reference and a policy in, encoded bytes out, or a refusal.

    policy ─▶ urls (may this be asked for?) ─▶ addresses (may this be dialled?) ─▶ download
    local: data: and file: URLs, which need no network

Rules of this package: what is not allowed is refused before a connection is made; a name is looked
up once and the vetted address is dialled; every limit holds while bytes arrive, not after; no
message tells where a name or a redirect led.
"""
