/** A program that generates text. */
@NullMarked
package org.ep4j.examples.jlama;

import org.jspecify.annotations.NullMarked;
