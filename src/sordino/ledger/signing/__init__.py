"""Signed folders: keys, what exactly is signed, and what a verifier finds."""

from sordino.ledger.signing.folder import MANIFEST as MANIFEST
from sordino.ledger.signing.folder import SIGNATURE as SIGNATURE
from sordino.ledger.signing.folder import SignedFolder as SignedFolder
from sordino.ledger.signing.folder import sign_folder as sign_folder
from sordino.ledger.signing.folder import signed_files as signed_files
from sordino.ledger.signing.folder import verify_folder as verify_folder
from sordino.ledger.signing.keys import SigningKey as SigningKey
from sordino.ledger.signing.keys import new_key as new_key
from sordino.ledger.signing.keys import read_key as read_key
