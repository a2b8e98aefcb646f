"""One policy on many ranks: each holds all of it (DDP), or a part of every block (FSDP2).

Either way the gradient is that of one process with the same batch: ranks differ only in which micro-batches they take.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from torch.distributed.tensor import DTensor

from holdfast.core.errors import HoldfastError
from holdfast.data.loader import Batch
from holdfast.policies.adapter import Adapter, Loss
from holdfast.policies.batch_slice import BatchSlice
from holdfast.policies.device import choose_device
from holdfast.replay.selection import find_selection
from holdfast.train.config import TrainConfig
from holdfast.train.distributed.ranks import Ranks
from holdfast.train.graphed_loss import GraphedLoss

# A method's term of the loss, given the batch, the policy's own loss, and the policy.
type ExtraLoss = Callable[[dict[str, torch.Tensor], Loss, nn.Module], torch.Tensor | None]


def computes_in_bf16(config: TrainConfig, device: str) -> bool:
    """Whether the loss is computed in bf16."""
    precision = config.optim.precision
    return precision == "bf16" or (precision == "auto" and device.startswith("cuda"))


def refuse_shards(config: TrainConfig, ranks: Ranks) -> None:
    """Raise an error if weights are to be sharded but something needs the whole policy."""
    if config.parallel != "fsdp" or ranks.count == 1:
        return
    method = config.make_method()
    flags = [f"--method={config.method}"] if method.needs_whole_policy else []
    if method.replays and find_selection(config.replay.selection).needs_scores:
        flags.append(f"--replay.selection={config.replay.selection}")
    if method.replays and config.replay.watches:
        flags.append(
            "--replay.share=need" if config.replay.share == "need" else f"--replay.alarm={config.replay.alarm}"
        )
    if flags:
        raise HoldfastError(
            f"{flags[0]} needs the whole policy on one rank, and --parallel=fsdp leaves each rank only a part of it. "
            "Use --parallel=ddp, or one process."
        )


def rank_device(asked: str, ranks: Ranks) -> str:
    """The device of this rank: on a machine with GPUs, the one with the rank's local number."""
    device = choose_device(asked)
    if ranks.count == 1 or not device.startswith("cuda"):
        return device
    found = torch.cuda.device_count()
    if device != "cuda":
        raise HoldfastError(f"--device={asked} is one GPU for {ranks.count} ranks. Use --device=cuda: one for each.")
    if found < ranks.local_count:
        raise HoldfastError(
            f"torchrun started {ranks.local_count} processes on a machine where torch sees {found} GPUs. "
            f"Use --nproc-per-node={found}, or --device=cpu."
        )
    return f"cuda:{ranks.local}"


def blocks(policy: nn.Module) -> list[nn.Module]:
    """Parts of a policy that are gathered one at a time: those it names in `shard_blocks()`, else its repeated layers.

    Repeated layers are the members of the outermost lists of two or more modules of one kind. A policy that
    accesses the inside of its layers instead of calling them must list the modules that it calls.
    """
    named: Callable[[], list[nn.Module]] | None = getattr(policy, "shard_blocks", None)
    if named is not None:
        return named()
    found: list[nn.Module] = []
    for child in policy.children():
        members = list(child.children()) if isinstance(child, nn.ModuleList) else []
        alike = len(members) > 1 and len({type(member) for member in members}) == 1
        if alike and not isinstance(members[0], nn.ModuleList):
            found += [member for member in members if any(True for _ in member.parameters())]
        else:
            found += blocks(child)
    return found


def shard(policy: nn.Module, ranks: Ranks) -> None:
    """Shard every parameter over the ranks, in place. Parameters are gathered block by block when needed."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard, register_fsdp_forward_method

    mesh = init_device_mesh(next(policy.parameters()).device.type, (ranks.count,))
    for block in [*blocks(policy), policy]:
        fully_shard(block, mesh=mesh)
    for called in ("velocity_errors", "loss_elements"):
        if hasattr(policy, called):  # the adapter calls the first of them that is there
            register_fsdp_forward_method(policy, called)
            break


@torch.no_grad()
def gather(policy: nn.Module, ranks: Ranks) -> None:
    """Undo `shard` on the first rank, in main memory. After this the policy can only be saved."""
    whole: dict[torch.Tensor, nn.Parameter] = {}  # by shard, so that tied parameters stay tied
    for module in policy.modules():
        for name, part in module._parameters.items():
            if isinstance(part, DTensor):
                if part not in whole:
                    full = part.full_tensor()
                    # Copied, because the gathered tensor is followed by padding, which must not be saved.
                    whole[part] = nn.Parameter(full.to("cpu", copy=True) if ranks.first else full.new_empty(0))
                module._parameters[name] = whole[part]


class Objective:
    """Loss and gradient of this rank's micro-batches. Gradients are averaged over ranks.

    On a GPU they run as one CUDA graph if the policy declares that it can be captured, unless `graphs` is false because
    gradients of several calls are needed at once.
    """

    def __init__(
        self,
        adapter: Adapter,
        config: TrainConfig,
        device: str,
        ranks: Ranks,
        extra: ExtraLoss | None = None,
        graphs: bool = True,
    ) -> None:
        self._loss, self._ranks = _Loss(adapter, extra), ranks
        self._replicates = ranks.count > 1 and config.parallel == "ddp"
        self._replicas: Any = None  # created with the first micro-batch
        self._device, self._bf16 = device.split(":")[0], computes_in_bf16(config, device)
        self._graphed: GraphedLoss | None = None
        whole = ranks.count == 1 and config.optim.micro_batches == 1  # else gradients are accumulated
        if graphs and whole and self._device == "cuda" and adapter.cuda_graphable:
            self._graphed = GraphedLoss([p for p in self._loss.parameters() if p.requires_grad])

    def learn(
        self,
        batch: Batch,
        active: torch.Tensor | None,
        share: torch.Tensor,
        seed: int,
        batch_slice: BatchSlice,
        last: bool,
    ) -> Loss:
        """Add the gradient of a preprocessed micro-batch, and return its loss; both weighted by its share.

        DDP exchanges gradients only with the last micro-batch. FSDP does so with every one, because otherwise it would
        have to keep whole gradients.
        """
        if self._replicates and self._replicas is None:
            self._replicas = self._replicate(batch, active)
        torch.manual_seed(seed)
        if self._graphed:
            return self._graphed.learn(self._learn, batch, active, share, batch_slice)
        with self._replicas.no_sync() if self._replicas and not last else nullcontext():
            return self._learn(batch, active, share, batch_slice)

    def _learn(self, batch: Batch, active: torch.Tensor | None, share: torch.Tensor, batch_slice: BatchSlice) -> Loss:
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bf16):
            loss = Loss(*(self._replicas or self._loss)(batch, active, batch_slice))
        extra = None if loss.extra is None else loss.extra * share
        loss = replace(loss, total=loss.total * share, extra=extra)
        (loss.total * self._ranks.count).backward()  # because gradients are averaged over ranks
        return loss.detach()

    def _replicate(self, batch: Batch, active: torch.Tensor | None) -> nn.Module:
        """Wrap the loss in DDP, after one trial backward pass that shows whether it leaves weights unused.

        Searching for unused weights in every step takes time, and not searching is an error if there are some.
        """
        buffers = [buffer.clone() for buffer in self._loss.buffers()]
        with torch.autocast(self._device, torch.bfloat16, enabled=self._bf16):
            self._loss(batch, active, None)[0].backward()
        unused = sum(p.requires_grad and p.grad is None for p in self._loss.parameters())
        self._loss.zero_grad(set_to_none=True)
        for buffer, before in zip(self._loss.buffers(), buffers, strict=True):
            buffer.data.copy_(before)
        anywhere = bool(self._ranks.sum(torch.tensor(unused, device=batch["action_is_pad"].device)))
        # A harmless warning about convolutions in channels-last layout: their gradients are copied once more.
        warnings.filterwarnings("ignore", "Grad strides do not match bucket view strides")
        return nn.parallel.DistributedDataParallel(
            self._loss, broadcast_buffers=False, find_unused_parameters=anywhere, gradient_as_bucket_view=True
        )


class _Loss(nn.Module):
    """The loss as a module, because DDP wraps modules."""

    def __init__(self, adapter: Adapter, extra: ExtraLoss | None) -> None:
        super().__init__()
        self.policy = adapter.policy
        self._adapter, self._extra = adapter, extra

    def forward(
        self, batch: Batch, active: torch.Tensor | None, batch_slice: BatchSlice | None
    ) -> tuple[torch.Tensor, Any, Any, Any]:
        """The fields of a micro-batch's `Loss`. It includes the method's term, so that DDP sees the weights it uses."""
        try:
            loss = self._adapter.loss(batch, active, batch_slice)
        except RuntimeError as error:
            if "mixed torch.Tensor and DTensor" not in str(error):
                raise
            raise HoldfastError(
                f"Policy {self._adapter.config.type!r} reaches into its layers, so they cannot be sharded. Use "
                "--parallel=ddp, or give the policy a method shard_blocks() that lists modules it only calls."
            ) from None
        extra = self._added(batch, loss)
        if extra is None:
            return loss.total, loss.elements, loss.mask, None
        return loss.total + extra, loss.elements, loss.mask, extra.detach()

    def _added(self, batch: Batch, loss: Loss) -> torch.Tensor | None:
        if self._extra is None:
            return None
        tensors = {key: value for key, value in batch.items() if isinstance(value, torch.Tensor)}
        with torch.autocast(loss.total.device.type, enabled=False):
            return self._extra(tensors, loss, self.policy)
