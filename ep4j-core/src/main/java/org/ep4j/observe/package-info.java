/**
 * What a running job can say of itself: for which ranks each rank waits, which experts are busy,
 * and events of the JDK's flight recorder.
 *
 * <p>{@link org.ep4j.ExpertBuffer#observe()} returns what one rank has seen, {@link
 * org.ep4j.observe.WorldObservation#gather} what all have. Engines record always: a wait that
 * sleeps or spins reads the clock once more, an operation that never waits does nothing.
 */
@NullMarked
package org.ep4j.observe;

import org.jspecify.annotations.NullMarked;
