/**
 * Cases: directories with one safetensors file per rank that hold the inputs of a dispatch and a
 * combine, and perhaps the outputs that another implementation recorded. They can be run on any
 * engine, written, and compared.
 */
@NullMarked
package org.ep4j.cases;

import org.jspecify.annotations.NullMarked;
