"""Define the errors of this package.

FilesError
├── FileRefused          the file is not stored; the text is a sentence for its uploader
│   ├── UnsupportedFile  its type, or something in it
│   ├── FileTooLarge     more than MAX_FILE_BYTES
│   └── QuotaExceeded    more than the plan has left
├── FileGone             the bytes have been deleted
└── FilesUnavailable     the object store does not answer
"""


class FilesError(Exception):
    """Base of this package's errors."""


class FileRefused(FilesError):  # noqa: N818 - reads as the condition it is
    """The file is not stored. The text is a sentence for the sender."""


class UnsupportedFile(FileRefused):
    """The file is of a type that is not accepted, or its content cannot be used."""


class FileTooLarge(FileRefused):
    """The file has more than MAX_FILE_BYTES."""


class QuotaExceeded(FileRefused):
    """The file is larger than what the account's plan has left."""


class FileGone(FilesError):  # noqa: N818 - as above
    """The file's bytes have been deleted."""


class FilesUnavailable(FilesError):  # noqa: N818 - as above
    """The object store does not answer, or refuses."""
