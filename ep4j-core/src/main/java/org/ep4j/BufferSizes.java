package org.ep4j;

/**
 * Memory that a buffer reserves on each rank, in bytes. Reserved is not used: the host engine's
 * pages take memory when they are first touched.
 *
 * @param symmetricBytes reachable by peers: receive and combine regions, control words, staging
 * @param privateBytes of this rank alone: low-latency outputs, sums, scratch
 * @param lowLatencyCommunicationBytes the part of {@code symmetricBytes} that low-latency
 *     operations need
 */
public record BufferSizes(
    long symmetricBytes, long privateBytes, long lowLatencyCommunicationBytes) {}
