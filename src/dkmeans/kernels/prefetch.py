"""Requests for memory that is needed soon."""

from typing import Any

import numba
from llvmlite import ir
from numba.extending import intrinsic

CACHE_LINE = 64  # bytes

_types: Any = numba.types
_INDEX = ir.IntType(64)


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(typing: Any, address: Any, size: Any) -> tuple[Any, Any]:
    """Ask for some bytes that are read soon, without waiting for them.

    Parameters
    ----------
    address : address
    size : int
        Number of bytes.
    """
    return _types.void(_types.uintp, _types.intp), _generate


def _generate(context: Any, b: Any, signature: Any, args: Any) -> Any:
    """Generate the code at the place of the call."""
    address, size = args
    byte, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    kind = ir.FunctionType(ir.VoidType(), [byte, flag, flag, flag])
    request = b.module.declare_intrinsic("llvm.prefetch", [byte], kind)
    to_read, in_second_cache, data = flag(0), flag(2), flag(1)
    start, before = b.inttoptr(address, byte), b.block
    head, body, after = (b.append_basic_block(name) for name in ("head", "body", "after"))
    b.branch(head)
    b.position_at_end(head)
    at = b.phi(_INDEX)
    at.add_incoming(_INDEX(0), before)
    b.cbranch(b.icmp_signed("<", at, size), body, after)
    b.position_at_end(body)
    b.call(request, [b.gep(start, [at]), to_read, in_second_cache, data])
    at.add_incoming(b.add(at, _INDEX(CACHE_LINE)), body)
    b.branch(head)
    b.position_at_end(after)
    return context.get_dummy_value()
