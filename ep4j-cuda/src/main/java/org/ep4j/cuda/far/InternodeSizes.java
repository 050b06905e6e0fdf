package org.ep4j.cuda.far;

/**
 * What a buffer needs between nodes; the same on all ranks.
 *
 * @param countWords words of a rank's counts; 0 without high throughput
 * @param tokenBytes bytes of a slot that a token takes at most, its header and the slot's included
 * @param lowLatencyBytes bytes of the part that low-latency operations of other nodes write into
 * @param stagingBytes bytes of outgoing memory that they are prepared in where the wire carries
 *     them
 * @param lowLatencyCounters counters that they need on each rank
 */
public record InternodeSizes(
    long countWords,
    long tokenBytes,
    long lowLatencyBytes,
    long stagingBytes,
    int lowLatencyCounters) {}
