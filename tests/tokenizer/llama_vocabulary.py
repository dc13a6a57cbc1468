"""The vocabulary of a GGUF file as llama.cpp runs it, through the library's C interface (tools/fetch_llama_cpp.py)."""
import ctypes
import pathlib

# A place for the library's struct of options, which is smaller: it fills it itself, and it comes last among the arguments.
_Options = type("_Options", (ctypes.Structure,), {"_fields_": [("bytes", ctypes.c_ubyte * 1024)]})
_Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)


class Library:
    def __init__(self, folder: pathlib.Path):
        ggml = ctypes.CDLL(str(next(folder.glob("libggml.*so*"))))
        llama = ctypes.CDLL(str(next(folder.glob("libllama.*so*"))))
        self.silent = _Log(lambda *_: None)
        ggml.ggml_log_set(self.silent, None)
        ggml.ggml_backend_load_all_from_path(str(folder).encode())
        llama.llama_log_set(self.silent, None)
        place, token = ctypes.c_void_p, ctypes.c_int32
        llama.llama_model_default_params.restype = _Options
        llama.llama_model_load_from_file.argtypes, llama.llama_model_load_from_file.restype = [ctypes.c_char_p, _Options], place
        llama.llama_model_get_vocab.argtypes, llama.llama_model_get_vocab.restype = [place], place
        llama.llama_vocab_n_tokens.argtypes = [place]
        llama.llama_tokenize.argtypes = [place, ctypes.c_char_p, token, place, token, ctypes.c_bool, ctypes.c_bool]
        llama.llama_detokenize.argtypes = [place, place, token, place, token, ctypes.c_bool, ctypes.c_bool]
        llama.llama_model_free.argtypes = [place]
        self.llama = llama


class Vocabulary:
    """REQUIRES: a file that holds a whole model (gguf_files.py packs a small one)."""

    def __init__(self, library: Library, path: pathlib.Path):
        self.llama = library.llama
        self.model = self.llama.llama_model_load_from_file(str(path).encode(), self.llama.llama_model_default_params())
        if not self.model:
            raise ValueError(f"llama.cpp does not load {path}")
        self.vocab = self.llama.llama_model_get_vocab(self.model)
        self.n = self.llama.llama_vocab_n_tokens(self.vocab)

    def close(self) -> None:
        self.llama.llama_model_free(self.model)

    def ids(self, text: str, special: bool, parse: bool) -> list[int]:
        raw = text.encode()
        out = (ctypes.c_int32 * (2 * len(raw) + 16))()
        n = self.llama.llama_tokenize(self.vocab, raw, len(raw), out, len(out), special, parse)
        assert n >= 0, n
        return list(out[:n])

    def text(self, ids: list[int], remove_special: bool, show_special: bool) -> bytes:
        given = (ctypes.c_int32 * len(ids))(*ids)
        out = ctypes.create_string_buffer(1 << 16)
        n = self.llama.llama_detokenize(self.vocab, given, len(ids), out, len(out), remove_special, show_special)
        assert n >= 0, n
        return out.raw[:n]
