package org.ep4j;

import java.util.List;

/**
 * Counters of a buffer since it was opened, and its reserved memory in bytes.
 *
 * @param dispatches high-throughput dispatches completed
 * @param combines high-throughput combines completed
 * @param combinesInPlace of these, those for which the rows of this rank lay in memory that the
 *     ranks of its node can read. On GPUs, they read the rows there if that holds for every rank of
 *     the node; otherwise each rank pushes its rows, or sums of them. Between nodes GPUs read rows
 *     so in the order of experts alone. A captured combine counts once, its replays do not
 * @param lowLatencyDispatches low-latency dispatches completed
 * @param lowLatencyCombines low-latency combines completed
 * @param rowsSent rows this rank sent, its own included
 * @param rowsReceived rows this rank received, its own included
 * @param payloadBytesSent bytes of rows and scales sent
 * @param symmetricBytes reserved bytes that peers can reach
 * @param privateBytes reserved bytes of this rank only
 * @param abandonedThreads threads of this process, of all its buffers, that are inside a call of a
 *     native library that waits for a lost rank without a limit; normally 0. Each keeps its stack
 *     and what the library holds until the process ends
 * @param wirePaths paths to ranks of other nodes since the wire was opened, by an open or a reset;
 *     empty for wires other than {@code verbs}
 */
public record BufferStatistics(
    long dispatches,
    long combines,
    long combinesInPlace,
    long lowLatencyDispatches,
    long lowLatencyCombines,
    long rowsSent,
    long rowsReceived,
    long payloadBytesSent,
    long symmetricBytes,
    long privateBytes,
    int abandonedThreads,
    List<WirePath> wirePaths) {
  /** Copies the list. */
  public BufferStatistics {
    wirePaths = List.copyOf(wirePaths);
  }
}
