"""Build a release that anybody can check: wheel and sdist, a bill of materials, hashed constraints, provenance.

    python release/build.py dist --key maintainer.key

Both archives are built twice and must agree byte for byte. Constraints name versions and digests, no addresses. The
provenance is an in-toto statement in a DSSE envelope, signed by the signer that signs dossiers.
"""

import argparse
import base64
import hashlib
import json
import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

from sordino.ledger.signing_keys import SigningKey, read_key, signature_holds

ROOT = Path(__file__).parents[1]
PAYLOAD = "application/vnd.in-toto+json"


class Package(NamedTuple):
    """One resolved package: the file that pip would install."""

    name: str
    version: str
    digest: str
    licence: str


def commit(*what: str) -> str:
    """A fact that git knows about the commit that is built."""
    return subprocess.run(["git", *what], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def archives(folder: Path) -> list[Path]:
    """Wheel and sdist of this checkout, dated by its commit; built twice, and refused if a byte differs."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as other:
        first, second = _built(folder), _built(Path(other))
        differ = [one.name for one, two in zip(first, second, strict=True) if one.read_bytes() != two.read_bytes()]
    if differ:
        raise SystemExit(f"Expected two builds of one commit to agree, got different bytes in {', '.join(differ)}.")
    return first


def _built(folder: Path) -> list[Path]:
    program = (
        "from hatchling.builders.wheel import WheelBuilder; from hatchling.builders.sdist import SdistBuilder\n"
        "import sys\n"
        "for builder in (WheelBuilder, SdistBuilder):\n"
        "    print(*builder(sys.argv[1]).build(directory=sys.argv[2], versions=['standard']), sep='\\n')\n"
    )
    dated = os.environ | {"SOURCE_DATE_EPOCH": commit("log", "-1", "--format=%ct")}
    command = [sys.executable, "-c", program, str(ROOT), str(folder.resolve())]
    made = subprocess.run(command, env=dated, cwd=ROOT, capture_output=True, text=True, check=True)
    return [Path(line) for line in made.stdout.split("\n") if line.strip()]


def resolved(wheel: Path) -> list[Package]:
    """What pip would install for the wheel, by name; a file without a digest is refused."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", "--report", "-"]
    answer = subprocess.run([*command, str(wheel)], capture_output=True, text=True, check=True).stdout
    return packages(json.loads(answer))


def packages(report: dict[str, Any]) -> list[Package]:
    """The packages of pip's report, by name."""
    found = []
    for entry in report["install"]:
        known = entry["metadata"]
        name = re.sub(r"[-_.]+", "-", known["name"]).lower()
        digest = entry["download_info"].get("archive_info", {}).get("hashes", {}).get("sha256")
        if digest is None:
            raise SystemExit(f"Expected a file with a SHA-256 for {name}, got none.")
        licence = (known.get("license_expression") or known.get("license") or "").strip().split("\n")[0][:100]
        found.append(Package(name, known["version"], digest, licence))
    return sorted(found)


def constraints(found: list[Package]) -> str:
    """Versions and digests of everything but Sordino itself; no addresses."""
    return "".join(f"{one.name}=={one.version} --hash=sha256:{one.digest}\n" for one in found if one.name != "sordino")


def bill_of_materials(found: list[Package]) -> dict[str, Any]:
    """CycloneDX 1.6: what a plain installation consists of. It holds no date, so equal packages give equal bytes."""

    def listed(one: Package) -> dict[str, Any]:
        reference = f"pkg:pypi/{one.name}@{one.version}"
        entry = {"type": "library", "bom-ref": reference, "purl": reference, "name": one.name, "version": one.version}
        licences = {"licenses": [{"license": {"name": one.licence}}]} if one.licence else {}
        return entry | {"hashes": [{"alg": "SHA-256", "content": one.digest}]} | licences

    (own,) = [listed(one) for one in found if one.name == "sordino"]
    others = [listed(one) for one in found if one.name != "sordino"]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own},
        "components": others,
    }


def statement(files: list[Path]) -> dict[str, Any]:
    """An in-toto statement: these files were built from this commit by this script."""
    subjects = [
        {"name": file.name, "digest": {"sha256": hashlib.sha256(file.read_bytes()).hexdigest()}} for file in files
    ]
    definition = {
        "buildType": "https://sordino.invalid/release/build.py",
        "externalParameters": {"commit": commit("rev-parse", "HEAD")},
        "internalParameters": {"python": sys.version.split()[0], "hatchling": metadata.version("hatchling")},
    }
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {"buildDefinition": definition, "runDetails": {"builder": {"id": "release/build.py"}}},
    }


def pre_authentication(kind: str, body: bytes) -> bytes:
    """What a DSSE signature is over (Dead Simple Signing Envelope 1.0, PAE)."""
    return b" ".join([b"DSSEv1", str(len(kind)).encode(), kind.encode(), str(len(body)).encode(), body])


def envelope(said: dict[str, Any], key: SigningKey) -> dict[str, Any]:
    """A statement, signed."""
    body = json.dumps(said, sort_keys=True, separators=(",", ":")).encode()
    signature = key.sign(pre_authentication(PAYLOAD, body))
    signatures = [{"keyid": key.fingerprint, "sig": base64.b64encode(signature).decode()}]
    return {"payloadType": PAYLOAD, "payload": base64.b64encode(body).decode(), "signatures": signatures}


def opened(sealed: dict[str, Any], public: bytes) -> dict[str, Any]:
    """The statement of an envelope whose signature holds; others are refused."""
    body = base64.b64decode(sealed["payload"], validate=True)
    message = pre_authentication(sealed["payloadType"], body)
    if not any(signature_holds(public, base64.b64decode(one["sig"]), message) for one in sealed["signatures"]):
        raise SystemExit("Expected a signature by this key over the statement, got none that holds.")
    return json.loads(body)


def main() -> None:
    """Write everything into one folder."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--key", type=Path, help="private key that signs the provenance; absent: it is not signed")
    given = parser.parse_args()
    files = archives(given.folder)
    bill, pinned = given.folder / "sordino.cdx.json", given.folder / "constraints.txt"
    found = resolved(next(file for file in files if file.suffix == ".whl"))
    bill.write_text(json.dumps(bill_of_materials(found), indent=2) + "\n", encoding="utf-8")
    pinned.write_text(constraints(found), encoding="utf-8")
    said = statement([*files, bill, pinned])
    written = said if given.key is None else envelope(said, read_key(given.key))
    (given.folder / "provenance.json").write_text(json.dumps(written, indent=2) + "\n", encoding="utf-8")
    sys.stdout.write("".join(f"{path.name}\n" for path in sorted(given.folder.iterdir())))


if __name__ == "__main__":
    main()
