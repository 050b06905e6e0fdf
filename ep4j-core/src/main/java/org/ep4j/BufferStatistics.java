package org.ep4j;

/**
 * Counters of a buffer since it was opened, and its reserved memory in bytes.
 *
 * @param dispatches high-throughput dispatches completed
 * @param combines high-throughput combines completed
 * @param lowLatencyDispatches low-latency dispatches completed
 * @param lowLatencyCombines low-latency combines completed
 * @param rowsSent rows this rank sent, its own included
 * @param rowsReceived rows this rank received, its own included
 * @param payloadBytesSent bytes of rows and scales sent
 * @param symmetricBytes reserved bytes that peers can reach
 * @param privateBytes reserved bytes of this rank only
 */
public record BufferStatistics(
    long dispatches,
    long combines,
    long lowLatencyDispatches,
    long lowLatencyCombines,
    long rowsSent,
    long rowsReceived,
    long payloadBytesSent,
    long symmetricBytes,
    long privateBytes) {}
