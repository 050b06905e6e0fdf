/** The program. */
@NullMarked
package org.ep4j.examples.spark;

import org.jspecify.annotations.NullMarked;
