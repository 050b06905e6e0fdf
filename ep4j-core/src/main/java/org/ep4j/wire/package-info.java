/**
 * Transports: one-sided writes between the ranks of a group, behind one contract.
 *
 * <p>{@link org.ep4j.wire.Wires} opens a {@link org.ep4j.wire.Wire}. Its {@link
 * org.ep4j.wire.Lane}s move bytes between {@link org.ep4j.wire.Region}s; the receiver's {@link
 * org.ep4j.wire.Counters} count arrivals. Only {@link org.ep4j.wire.WireWait} and the collective
 * calls wait, and these have deadlines.
 */
@NullMarked
package org.ep4j.wire;

import org.jspecify.annotations.NullMarked;
