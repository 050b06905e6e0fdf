/** Example programs. */
@NullMarked
package org.ep4j.examples;

import org.jspecify.annotations.NullMarked;
