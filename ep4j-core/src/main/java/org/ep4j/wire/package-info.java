/**
 * How bytes travel: one-sided transports between the ranks of a group, all behind one contract.
 *
 * <p>{@link org.ep4j.wire.Wires} opens a {@link org.ep4j.wire.Wire}. Work is given to its {@link
 * org.ep4j.wire.Lane}s, which move bytes between {@link org.ep4j.wire.Region}s; the receiver sees
 * by its {@link org.ep4j.wire.Counters} what has arrived. Nothing in here waits except {@link
 * org.ep4j.wire.WireWait} and the collective calls, and these have deadlines.
 */
@NullMarked
package org.ep4j.wire;

import org.jspecify.annotations.NullMarked;
