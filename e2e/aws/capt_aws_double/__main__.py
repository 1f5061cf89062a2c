"""Starts the double: `python -m capt_aws_double --port 0`."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from pathlib import Path
from types import FrameType

# moto reads these when its backends are made.
os.environ.setdefault("MOTO_IAM_LOAD_MANAGED_POLICIES", "true")

from werkzeug.serving import make_server  # noqa: E402

from .options import REALISTIC, Options, User  # noqa: E402
from .server import Double, Handler  # noqa: E402


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="capt_aws_double", description=sys.modules["capt_aws_double"].__doc__)
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=0, help="0 (default) takes a free one, which is printed")
    parser.add_argument("--eks-endpoint", metavar="URL", help="endpoint of every new cluster")
    parser.add_argument("--eks-ca", metavar="FILE", help="PEM of the CA of every new cluster")
    parser.add_argument("--eks-versions", metavar="1.MIN-1.MAX", default="1.30-1.35")
    parser.add_argument("--user", metavar="NAME:KEY:SECRET", action="append", default=[],
                        help="an IAM user with that access key; more than one may be given")
    parser.add_argument("--admin-group", default="system:masters",
                        help="group of those with AmazonEKSClusterAdminPolicy")
    parser.add_argument("--durations", default="{}",
                        help='seconds by kind as JSON, {"cluster.create": 5}; or "realistic"')
    parser.add_argument("--verbose", action="store_true", help="log every request")
    return parser.parse_args()


def _options(arguments: argparse.Namespace) -> Options:
    oldest, newest = (int(version.removeprefix("1.")) for version in arguments.eks_versions.split("-"))
    options = Options(
        oldest_minor=oldest,
        newest_minor=newest,
        endpoint=arguments.eks_endpoint,
        ca=Path(arguments.eks_ca).read_text() if arguments.eks_ca else None,
        admin_group=arguments.admin_group,
        users=[User.parse(user) for user in arguments.user],
    )
    realistic = arguments.durations == "realistic"
    options.set_durations(REALISTIC if realistic else json.loads(arguments.durations))
    return options


def main() -> None:
    """Serves until it is told to stop."""
    arguments = _arguments()
    Handler.verbose = arguments.verbose
    double = Double(_options(arguments))
    server = make_server(arguments.host, arguments.port, double, threaded=True, request_handler=Handler)

    def stop(number: int, frame: FrameType | None) -> None:
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"listening on http://{arguments.host}:{server.port}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
