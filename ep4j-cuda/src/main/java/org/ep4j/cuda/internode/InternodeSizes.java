package org.ep4j.cuda.internode;

/**
 * Requirements of a buffer between nodes, equal on all ranks.
 *
 * @param countWords words of a rank's counts; 0 without high throughput
 * @param tokenBytes largest number of bytes of a token in a slot, including the headers
 * @param lowLatencyBytes bytes of the part that low-latency operations of other nodes write into
 * @param stagingBytes bytes of outgoing memory for low-latency puts
 * @param lowLatencyPutBytes largest number of bytes of a low-latency put
 * @param lowLatencyCounters low-latency counters of each rank
 * @param pendingCommands commands for one rank that may wait while it takes none, without holding
 *     up those for other ranks
 */
public record InternodeSizes(
    long countWords,
    long tokenBytes,
    long lowLatencyBytes,
    long stagingBytes,
    long lowLatencyPutBytes,
    int lowLatencyCounters,
    int pendingCommands) {}
