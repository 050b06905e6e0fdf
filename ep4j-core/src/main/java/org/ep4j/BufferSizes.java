package org.ep4j;

/**
 * Memory that a buffer reserves on each rank, in bytes. The host engine reserves address space
 * only: a page takes memory when first touched.
 *
 * @param symmetricBytes memory that peers can reach: receive and combine regions, control words,
 *     staging
 * @param privateBytes memory of this rank only: low-latency outputs, sums, scratch
 * @param lowLatencyCommunicationBytes the part of {@code symmetricBytes} that low-latency
 *     operations need
 */
public record BufferSizes(
    long symmetricBytes, long privateBytes, long lowLatencyCommunicationBytes) {}
