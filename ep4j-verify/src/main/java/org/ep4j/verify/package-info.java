/**
 * The oracle: computes from the inputs of all ranks the expected bits of every output of every
 * operation, with its own plain scalar arithmetic and without any engine, and names the first token
 * that differs. Also: generators of inputs, and poison for memory that operations must write.
 */
@NullMarked
package org.ep4j.verify;

import org.jspecify.annotations.NullMarked;
