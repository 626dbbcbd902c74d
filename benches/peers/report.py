def write(figures, out):
    pass
