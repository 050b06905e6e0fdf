package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.BufferConfig;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.engine.launch.KernelCall;
import org.ep4j.cuda.engine.launch.LowLatencyField;

/** Parameters of the low-latency kernels that are constant for a buffer. */
final class LowLatencyConstants {
  private LowLatencyConstants() {}

  static void set(
      KernelCall<LowLatencyField> call,
      CudaContext context,
      LowLatencyRegion part,
      LowLatencyKernels kernels) {
    LowLatencyLayout layout = part.layout();
    BufferConfig config = context.config;
    HostWords words = context.words;
    call.set(LowLatencyField.PEERS, part.peers());
    call.set(LowLatencyField.OWN, part.own());
    call.set(LowLatencyField.RANK, context.rank);
    call.set(LowLatencyField.RANKS, context.ranks);
    call.set(LowLatencyField.EXPERTS, config.experts());
    call.set(LowLatencyField.LOCAL_EXPERTS, context.placement.localExperts(context.rank));
    call.set(LowLatencyField.PLACEMENT, context.owners.address());
    call.set(LowLatencyField.HIDDEN, config.hidden());
    call.set(LowLatencyField.MAX_TOKENS, config.lowLatencyMaxTokens());
    call.set(LowLatencyField.MAX_CHOICES, config.topK());
    call.set(LowLatencyField.RECEIVED_OFFSET, layout.received);
    call.set(LowLatencyField.HEADERS_OFFSET, layout.headers);
    call.set(LowLatencyField.COUNTS_OFFSET, layout.counts);
    call.set(LowLatencyField.COUNT_STRIDE, layout.countStride);
    call.set(LowLatencyField.ENTRIES_OFFSET, layout.entries);
    call.set(LowLatencyField.WEIGHTS_OFFSET, layout.weights);
    call.set(LowLatencyField.FLAGS_OFFSET, layout.flags);
    call.set(LowLatencyField.FLAG_STRIDE, layout.flagStride);
    call.set(LowLatencyField.ROWS_OFFSET, layout.rows(part.llPackets()));
    call.set(LowLatencyField.PACKETS_OFFSET, layout.packets);
    call.set(LowLatencyField.AREA_BYTES, layout.areaBytes);
    call.set(LowLatencyField.CONTROL, context.region.address());
    call.set(LowLatencyField.MASKS, part.masks());
    call.set(LowLatencyField.WAITED, part.waited());
    call.set(LowLatencyField.ACKNOWLEDGED, part.acknowledged());
    call.set(LowLatencyField.MASKING, config.masking());
    call.set(LowLatencyField.HOST_MASKS, words.masksOnDevice());
    call.set(LowLatencyField.HOST_GONE, words.goneOnDevice());
    call.set(LowLatencyField.TILE_TOKENS, kernels.tileTokens);
    call.set(LowLatencyField.TIMEOUT, config.timeout().toNanos());
    call.set(LowLatencyField.RECORD, words.recordOnDevice());
    call.set(LowLatencyField.HOST_ABORT, words.abortOnDevice());
    call.set(LowLatencyField.COMPLETED, words.completedOnDevice());
    int node = context.nodes.of(context.rank);
    int first = context.nodes.first(node);
    call.set(LowLatencyField.NODE_FIRST, first);
    call.set(LowLatencyField.NODE_RANKS, context.nodes.end(node) - first);
    if (context.internode != null) {
      call.set(LowLatencyField.INTERNODE_PART, context.internode.lowLatencyPart());
      call.set(LowLatencyField.SOURCE_BYTES, layout.sourceBytes);
      call.set(LowLatencyField.PACKED_OFFSET, layout.packed);
      call.set(LowLatencyField.PUTS, part.puts());
      call.set(LowLatencyField.INTERNODE_STATE, part.internodeState());
    }
  }
}
