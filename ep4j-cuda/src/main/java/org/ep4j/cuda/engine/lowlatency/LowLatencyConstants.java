package org.ep4j.cuda.engine.lowlatency;

import org.ep4j.config.BufferConfig;
import org.ep4j.cuda.engine.context.CudaContext;
import org.ep4j.cuda.engine.failure.HostWords;
import org.ep4j.cuda.struct.LowLatencyParameters;
import org.ep4j.engine.Limits;

/** Parameters of the low-latency kernels that are constant for a buffer. */
final class LowLatencyConstants {
  private LowLatencyConstants() {}

  static void set(
      LowLatencyParameters p,
      CudaContext context,
      LowLatencyRegion part,
      LowLatencyKernels kernels) {
    LowLatencyLayout layout = part.layout();
    BufferConfig config = context.config;
    HostWords words = context.words;
    p.peers.set(part.peers());
    p.own.set(part.own());
    p.rank.set(context.rank);
    p.ranks.set(context.ranks);
    p.experts.set(config.experts());
    p.localExperts.set(context.placement.localExperts(context.rank));
    p.placement.set(context.owners.address());
    p.maxTokens.set(Limits.lowLatencyTokens(config));
    p.maxChoices.set(config.topK());
    p.receivedOffset.set(layout.received);
    p.headersOffset.set(layout.headers);
    p.countsOffset.set(layout.counts);
    p.countStride.set(layout.countStride);
    p.entriesOffset.set(layout.entries);
    p.weightsOffset.set(layout.weights);
    p.flagsOffset.set(layout.flags);
    p.flagStride.set(layout.flagStride);
    p.rowsOffset.set(layout.rows(part.llPackets()));
    p.packetsOffset.set(layout.packets);
    p.areaBytes.set(layout.areaBytes);
    p.control.set(context.region.address());
    p.masks.set(part.masks());
    p.waited.set(part.waited());
    p.acknowledged.set(part.acknowledged());
    p.masking.set(Limits.masking(config));
    p.hostMasks.set(words.masksOnDevice());
    p.hostGone.set(words.goneOnDevice());
    p.tileTokens.set(kernels.tileTokens);
    p.timeout.set(config.timeout().toNanos());
    p.record.set(words.recordOnDevice());
    p.hostAbort.set(words.abortOnDevice());
    p.receipt.completed.set(words.completedOnDevice());
    int node = context.nodes.of(context.rank);
    int first = context.nodes.first(node);
    p.nodeFirst.set(first);
    p.nodeRanks.set(context.nodes.end(node) - first);
    if (context.internode != null) {
      p.internodePart.set(context.internode.lowLatencyPart());
      p.sourceBytes.set(layout.sourceBytes);
      p.packedOffset.set(layout.packed);
      p.unitsOffset.set(layout.units);
      p.internodeAreaBytes.set(layout.internodeAreaBytes);
      p.shareBytes.set(layout.shareBytes);
      p.puts.set(part.puts());
      p.internodeState.set(part.internodeState());
    }
  }
}
