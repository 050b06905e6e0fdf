package org.ep4j.engine.host.context;

import org.ep4j.config.Layout;
import org.ep4j.engine.DebugMode;
import org.ep4j.engine.host.context.Staging.Payload;
import org.ep4j.engine.host.layout.HighThroughputLayout;
import org.ep4j.memory.NativeMemory;
import org.ep4j.tensor.Tensor;

/** Debug mode: what the last dispatch wrote into the receive region of this rank. */
public final class DeliveredRows {
  private final HighThroughputLayout layout;
  private final long part;
  private long rows;
  private long rowBytes;
  private long scaleBytes;
  private long choices;
  private long epoch;

  /**
   * @param part address of this rank's high-throughput part
   */
  public DeliveredRows(HighThroughputLayout layout, long part) {
    this.layout = layout;
    this.part = part;
  }

  public void delivered(HostHandle handle, Payload payload) {
    rows = handle.staticSizing ? handle.limit : handle.rows();
    rowBytes = payload.rowBytes;
    scaleBytes = payload.scaleBytes;
    choices = handle.layout == Layout.FLAT ? handle.topK : 1;
    epoch = handle.epoch;
  }

  /** Overwrites the rows. No peer writes into the region, and all inputs there are copied. */
  public void outdate() {
    poison(layout.rows, rowBytes);
    poison(layout.scales, scaleBytes);
    poison(layout.globalScales, Float.BYTES);
    poison(layout.topkIdx, Long.BYTES * choices);
    poison(layout.topkWeights, Float.BYTES * choices);
    poison(layout.sourceTokens, Integer.BYTES);
    poison(layout.sourceRanks, Integer.BYTES);
    rows = 0;
  }

  private void poison(long array, long stride) {
    NativeMemory.fill(part + array, rows * stride, DebugMode.POISON);
  }

  /** Requires that rows in the receive region are those of the handle's dispatch. */
  public void requireOf(HostHandle handle, Tensor y) {
    boolean received =
        y.nativeHost() && y.address() >= part + layout.rows && y.address() < part + layout.scales;
    if (received && handle.epoch != epoch) {
      throw DebugMode.rowsOfOtherHandle(y, "dispatch " + epoch, "dispatch " + handle.epoch);
    }
  }
}
