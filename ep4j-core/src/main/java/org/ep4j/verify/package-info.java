/**
 * The oracle: from the inputs of all ranks it computes what every output of every operation must
 * be, bit for bit, with plain scalar arithmetic of its own and without any engine; it names the
 * first token that differs. Beside it: generators of inputs, and poison for memory that must be
 * written.
 */
@NullMarked
package org.ep4j.verify;

import org.jspecify.annotations.NullMarked;
