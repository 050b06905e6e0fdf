package org.ep4j.engine.host.dispatch;

import org.ep4j.config.Layout;
import org.ep4j.engine.host.context.HostHandle;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.memory.NativeMemory;

/**
 * Fills the slots of this rank's region that have no token: padding after the groups (EXPERT_MAJOR)
 * and unused rows ({@code Sizing.atMost}). Indices become -1, weights 0, and padding rows are
 * cleared on request. Peers write none of these slots.
 */
final class EmptySlots {
  private final HighThroughputLayout layout;
  private final long part;

  EmptySlots(HighThroughputLayout layout, long ownPart) {
    this.layout = layout;
    this.part = ownPart;
  }

  void fill(HostHandle handle, Payload payload) {
    if (handle.layout == Layout.EXPERT_MAJOR) {
      for (int l = 0; l < handle.received.length; l++) {
        long from = Math.min(handle.expertOffsets[l] + handle.received[l], handle.limit);
        long to = Math.min(handle.expertOffsets[l + 1], handle.limit);
        fillIndices(handle, from, to);
        if (handle.zeroPadding) {
          clear(from, to, payload);
        }
      }
    }
    if (handle.staticSizing) {
      fillIndices(handle, Math.min(handle.neededRows, handle.limit), handle.limit);
    }
  }

  private void fillIndices(HostHandle handle, long from, long to) {
    if (to <= from) {
      return;
    }
    set(layout.sourceTokens, from, to, 4, -1);
    set(layout.sourceRanks, from, to, 4, -1);
    if (handle.layout == Layout.FLAT) {
      set(layout.topkIdx, from, to, 8L * handle.topK, -1);
      set(layout.topkWeights, from, to, 4L * handle.topK, 0);
    } else {
      set(layout.topkWeights, from, to, 4, 0);
    }
  }

  private void clear(long from, long to, Payload payload) {
    if (to <= from) {
      return;
    }
    set(layout.rows, from, to, payload.rowBytes, 0);
    if (payload.scaleBytes != 0) {
      set(layout.scales, from, to, payload.scaleBytes, 0);
    }
    if (payload.globalScales != 0) {
      set(layout.globalScales, from, to, 4, 0);
    }
  }

  private void set(long array, long from, long to, long stride, int value) {
    NativeMemory.fill(part + array + from * stride, (to - from) * stride, (byte) value);
  }
}
