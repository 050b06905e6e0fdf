/**
 * One round of a property test: drawn shapes, tokens, the calls, and the comparison with the
 * oracle.
 */
@NullMarked
package org.ep4j.conformance.round;

import org.jspecify.annotations.NullMarked;
