/** Programs to start from. */
module org.ep4j.examples {
  requires org.ep4j;
  requires static org.jspecify;
}
