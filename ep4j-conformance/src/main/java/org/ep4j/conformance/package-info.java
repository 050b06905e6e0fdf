/** Test kits that every engine and every wire must pass. */
@NullMarked
package org.ep4j.conformance;

import org.jspecify.annotations.NullMarked;
