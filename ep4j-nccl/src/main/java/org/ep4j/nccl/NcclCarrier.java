package org.ep4j.nccl;

import java.io.IOException;
import java.lang.System.Logger.Level;
import java.lang.foreign.MemorySegment;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import org.ep4j.cuda.driver.CudaDevice;
import org.ep4j.cuda.driver.PinnedMemory;
import org.ep4j.error.Ep4jException;
import org.ep4j.wire.tcp.Carrier;

/**
 * NCCL sends and receives between this rank's GPU and that of one peer, from and to the carrier's
 * own page-locked memory: the GPU never accesses memory of callers, which they may free at any
 * time.
 */
final class NcclCarrier implements Carrier {
  /** Two batches in flight, one queued, one being read or written. */
  static final int SLOTS = 4;

  /** Large enough that the cost of a call is small compared to the transfer. */
  private static final int SLOT_BYTES = 2 << 20;

  private static final System.Logger LOG = System.getLogger("org.ep4j.nccl");

  private final NcclCarrierService service;
  private final NcclSimplexLink out;
  private final NcclSimplexLink in;
  private final PinnedMemory memory;
  private final AtomicBoolean closed = new AtomicBoolean();

  /** Directions that the GPU no longer uses. */
  private final AtomicInteger ended = new AtomicInteger();

  NcclCarrier(
      NcclCarrierService service, CudaDevice device, NcclSimplexLink out, NcclSimplexLink in) {
    this.service = service;
    this.out = out;
    this.in = in;
    memory = PinnedMemory.allocate(device, 2L * SLOTS * SLOT_BYTES);
  }

  NcclSimplexLink out() {
    return out;
  }

  NcclSimplexLink in() {
    return in;
  }

  @Override
  public int slots() {
    return SLOTS;
  }

  private static long outgoingAt(int slot) {
    return (long) slot * SLOT_BYTES;
  }

  private static long incomingAt(int slot) {
    return (long) (SLOTS + slot) * SLOT_BYTES;
  }

  @Override
  public MemorySegment outgoing(int slot) {
    return memory.segment().asSlice(outgoingAt(slot), SLOT_BYTES);
  }

  @Override
  public MemorySegment incoming(int slot) {
    return memory.segment().asSlice(incomingAt(slot), SLOT_BYTES);
  }

  /** Sends the first batch, for which NCCL connects; no other batch is in flight. */
  boolean tryOut() {
    return out.post(memory.deviceAddress() + outgoingAt(0), Long.BYTES);
  }

  /** Receives the first batch. */
  boolean tryIn() {
    return in.post(memory.deviceAddress() + incomingAt(0), Long.BYTES);
  }

  @Override
  public boolean send(int slot, int bytes) throws IOException {
    try {
      return out.post(memory.deviceAddress() + outgoingAt(slot), bytes);
    } catch (Ep4jException e) {
      throw failure(e);
    }
  }

  @Override
  public boolean receive(int slot, int bytes) throws IOException {
    try {
      return in.post(memory.deviceAddress() + incomingAt(slot), bytes);
    } catch (Ep4jException e) {
      throw failure(e);
    }
  }

  /** Excludes the first batch, which only establishes the connection. */
  @Override
  public long sent() throws IOException {
    try {
      return out.done() - 1;
    } catch (Ep4jException e) {
      throw failure(e);
    }
  }

  /** Excludes the first batch, which only establishes the connection. */
  @Override
  public long received() throws IOException {
    try {
      return in.done() - 1;
    } catch (Ep4jException e) {
      throw failure(e);
    }
  }

  private static IOException failure(Ep4jException e) {
    return new IOException(e.getMessage(), e);
  }

  @Override
  public void close() {
    if (closed.compareAndSet(false, true)) {
      // Concurrently: freeing one waits for the GPU, and so for a batch of the other that never
      // ends.
      service.part("ep4j-nccl-end", () -> end(out));
      service.part("ep4j-nccl-end", () -> end(in));
    }
  }

  private void end(NcclSimplexLink link) {
    if (!link.close()) {
      LOG.log(Level.WARNING, "NCCL has not ended aborted work; its memory stays allocated");
    } else if (ended.incrementAndGet() == 2) {
      memory.close();
    }
  }
}
